package s3store

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// maxLasts is the longest validity of a presigned URL (ST6).
const maxLasts = time.Hour

// PresignGet implements store.Blobs. The validity is rounded down to whole seconds, so
// that the URL does not outlive its object (ST3), and the response forbids caches to keep
// it (E2). Errors: Invalid (under a second, or longer than the tier allows).
func (s *Store) PresignGet(ctx context.Context, key mayfly.BlobKey, lasts time.Duration) (string, error) {
	return s.presign(ctx, key, lasts, s.opts.Longest, func(lasts time.Duration) (*url.URL, error) {
		return s.server.public.PresignedGetObject(ctx, s.opts.Bucket, s.name(key), lasts, url.Values{"response-cache-control": {"private, no-store"}})
	})
}

// PresignPut implements store.Blobs. The length is signed: the server refuses a body
// with another Content-Length. An object put through a URL has no hash: the publisher
// reads it first (L11). Errors: Invalid (no length, under a second, or over an hour).
func (s *Store) PresignPut(ctx context.Context, key mayfly.BlobKey, length int64, lasts time.Duration) (string, error) {
	if length < 1 {
		return "", mayfly.Errorf(mayfly.Invalid, "invalid length %d of an object to be put", length)
	}
	return s.presign(ctx, key, lasts, maxLasts, func(lasts time.Duration) (*url.URL, error) {
		return presignPut(ctx, s.server.public, s.opts.Bucket, s.name(key), length, lasts)
	})
}

func (s *Store) presign(ctx context.Context, key mayfly.BlobKey, lasts, longest time.Duration, sign func(time.Duration) (*url.URL, error)) (string, error) {
	if err := store.CheckBlobKey(key); err != nil {
		return "", err
	}
	if lasts < time.Second || lasts > longest {
		return "", mayfly.Errorf(mayfly.Invalid, "invalid validity %v of a presigned URL: must be between 1s and %v", lasts, longest)
	}
	u, err := sign(lasts.Truncate(time.Second))
	if err != nil {
		return "", fmt.Errorf("presign %s: %w", key, withKind(ctx, err))
	}
	return u.String(), nil
}

// presignPut signs a put of exactly length bytes.
func presignPut(ctx context.Context, by *minio.Client, bucket, name string, length int64, lasts time.Duration) (*url.URL, error) {
	signed := http.Header{"Content-Length": {strconv.FormatInt(length, 10)}}
	return by.PresignHeader(ctx, http.MethodPut, bucket, name, lasts, nil, signed)
}
