package s3store

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// maxLasts is how long any address is good for at most (ST6).
const maxLasts = time.Hour

// Presign implements store.Blobs. An address is good for whole seconds, rounded
// down: it must not outlive what it leads to (ST3), nor is what it leads to kept by
// caches on the way (E2). What is put through one has
// no hash: whoever publishes it reads it first (L11). Errors: Invalid (under a
// second, or longer than the tier allows).
func (s *Store) Presign(ctx context.Context, what store.Access, key mayfly.BlobKey, lasts time.Duration) (string, error) {
	if err := store.CheckBlobKey(key); err != nil {
		return "", err
	}
	longest := maxLasts
	if what == store.Read {
		longest = s.opts.Longest
	}
	if lasts < time.Second || lasts > longest {
		return "", mayfly.Errorf(mayfly.Invalid, "an address for %v is not between a second and %v", lasts, longest)
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
		return "", fmt.Errorf("presign %s: %w", key, kindOf(ctx, err))
	}
	return u.String(), nil
}
