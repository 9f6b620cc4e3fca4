package s3store

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// maxLasts is the longest validity of a presigned URL (ST6).
const maxLasts = time.Hour

// Presign implements store.Blobs. The validity is rounded down to whole seconds, so
// that the URL does not outlive its object (ST3), and the response forbids caches to keep
// it (E2). An object put through a URL has no hash: the publisher reads it
// first (L11). Errors: Invalid (under a second, or longer than the tier allows).
func (s *Store) Presign(ctx context.Context, what store.Access, key mayfly.BlobKey, lasts time.Duration) (string, error) {
	if err := store.CheckBlobKey(key); err != nil {
		return "", err
	}
	longest := maxLasts
	if what == store.Read {
		longest = s.opts.Longest
	}
	if lasts < time.Second || lasts > longest {
		return "", mayfly.Errorf(mayfly.Invalid, "invalid validity %v of a presigned URL: must be between 1s and %v", lasts, longest)
	}
	lasts = lasts.Truncate(time.Second)
	var (
		u   *url.URL
		err error
	)
	switch what {
	case store.Read:
		u, err = s.server.public.PresignedGetObject(ctx, s.opts.Bucket, s.name(key), lasts, url.Values{"response-cache-control": {"private, no-store"}})
	case store.Write:
		u, err = s.server.public.PresignedPutObject(ctx, s.opts.Bucket, s.name(key), lasts)
	default:
		return "", mayfly.Errorf(mayfly.Invalid, "access %d is neither to read nor to write", what)
	}
	if err != nil {
		return "", fmt.Errorf("presign %s: %w", key, withKind(ctx, err))
	}
	return u.String(), nil
}
