package store

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"

	"github.com/mayflyhq/mayfly"
)

// ReadBack reads an object of a tier and compares every byte with what was
// uploaded, by its hash. It answers how much it has read. Errors: Corrupt, and
// those of Open.
func ReadBack(ctx context.Context, tier Blobs, key mayfly.BlobKey, medium mayfly.Medium) (int64, error) {
	r, _, err := tier.Open(ctx, key, Span{})
	if err != nil {
		return 0, err
	}
	h := sha256.New()
	size, err := io.Copy(h, r)
	if err := errors.Join(err, r.Close()); err != nil {
		return size, err
	}
	if size != medium.Size || [32]byte(h.Sum(nil)) != medium.SHA256 {
		return size, mayfly.Errorf(mayfly.Corrupt, "%s: %d bytes are there, and they are not the %d that were uploaded", key, size, medium.Size)
	}
	return size, nil
}
