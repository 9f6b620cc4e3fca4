package s3store

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// Metadata of an object. The hash is the one that the writer computed; the mark
// identifies an upload in parts.
const (
	hashHeader = "X-Amz-Meta-Mayfly-Sha256"
	markHeader = "X-Amz-Meta-Mayfly-Mark"
)

// held is an object as the server describes it.
type held struct {
	store.Object
	etag, mark string
	noted      string // the checksums of its blocks, encoded
	computed   []byte // the SHA-256 that the server reports; nil if none
}

// describe parses the description of an object. The caller passes the size, because
// the response to a range has another one.
func describe(key mayfly.BlobKey, size int64, info minio.ObjectInfo) (held, error) {
	h := held{Object: store.Object{Key: key, Size: size}, etag: info.ETag, mark: info.Metadata.Get(markHeader), noted: info.Metadata.Get(sumsHeader)}
	if size < 0 {
		return h, mayfly.Errorf(mayfly.Unavailable, "the server does not say how long %s is", key)
	}
	if text := info.Metadata.Get(hashHeader); text != "" {
		hash, err := hex.DecodeString(text)
		if err != nil || len(hash) != len(h.SHA256) {
			return h, mayfly.Errorf(mayfly.Corrupt, "invalid hash in the metadata of %s", key)
		}
		copy(h.SHA256[:], hash)
	}
	if info.ChecksumSHA256 != "" && !strings.EqualFold(info.ChecksumMode, "COMPOSITE") {
		// The checksum of an object in parts is one of checksums, followed by their number.
		if hash, err := base64.StdEncoding.DecodeString(info.ChecksumSHA256); err == nil && len(hash) == len(h.SHA256) {
			h.computed = hash
		}
	}
	if h.computed != nil && h.SHA256 != ([32]byte{}) && h.SHA256 != [32]byte(h.computed) {
		return h, mayfly.Errorf(mayfly.Corrupt, "%s is not what was written: the server has computed another hash", key)
	}
	return h, nil
}

// Stat implements store.Blobs. The hash is zero for an object put through a
// presigned URL.
func (s *Store) Stat(ctx context.Context, key mayfly.BlobKey) (store.Object, error) {
	if err := store.CheckBlobKey(key); err != nil {
		return store.Object{}, err
	}
	h, err := s.head(ctx, key, s.name(key))
	if err != nil {
		return store.Object{}, fmt.Errorf("stat %s: %w", key, err)
	}
	return h.Object, nil
}

// head requests the description of an object, with the server's checksum.
func (s *Store) head(ctx context.Context, key mayfly.BlobKey, name string) (h held, err error) {
	err = s.try(ctx, s.reads(key), func() error {
		ctx, cancel := s.bounded(ctx, 0)
		defer cancel()
		info, err := s.server.core.StatObject(ctx, s.opts.Bucket, name, minio.StatObjectOptions{Checksum: true})
		if err == nil {
			h, err = describe(key, info.Size, info)
		}
		return err
	})
	if errors.Is(err, mayfly.NotFound) {
		err = s.missing(ctx, key, err)
	}
	return h, err
}

// missing distinguishes a missing object from a missing bucket. The server gives the
// same response to HEAD for both, and a caller that takes a missing bucket for a
// missing object may give up data.
func (s *Store) missing(ctx context.Context, key mayfly.BlobKey, notFound error) error {
	there := false
	err := s.try(ctx, s.reads(key), func() (err error) {
		ctx, cancel := s.bounded(ctx, 0)
		defer cancel()
		there, err = s.server.core.BucketExists(ctx, s.opts.Bucket)
		return err
	})
	if err == nil && !there {
		err = mayfly.Errorf(mayfly.Unavailable, "there is no bucket %s", s.opts.Bucket).WithHint("make the bucket, or name another one")
	}
	if err != nil {
		return err
	}
	return notFound
}

// Checksum implements store.Checksummed. It works only after Probe has seen the
// server compute a hash that no client had sent.
func (s *Store) Checksum(ctx context.Context, key mayfly.BlobKey) ([32]byte, error) {
	if err := store.CheckBlobKey(key); err != nil {
		return [32]byte{}, err
	}
	if !s.attests.Load() {
		return [32]byte{}, mayfly.Errorf(mayfly.Unsupported, "%s is not known to compute SHA-256 by itself", s)
	}
	h, err := s.head(ctx, key, s.name(key))
	if err != nil {
		return [32]byte{}, fmt.Errorf("checksum %s: %w", key, err)
	}
	if h.computed == nil {
		return [32]byte{}, mayfly.Errorf(mayfly.Unsupported, "the server has computed no SHA-256 over the whole of %s", key)
	}
	return [32]byte(h.computed), nil
}
