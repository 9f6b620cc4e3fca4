package store

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
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

// ItemOf reads the row of one item. Errors: NotFound, and those of Ledger.Get.
func ItemOf(ctx context.Context, ledger Ledger, id mayfly.ID) (mayfly.Item, error) {
	found, err := ledger.Get(ctx, id)
	if err != nil {
		return mayfly.Item{}, fmt.Errorf("read the row of %s: %w", id, err)
	}
	if !found[0].Found {
		return mayfly.Item{}, mayfly.Errorf(mayfly.NotFound, "there is no item %s", id)
	}
	return found[0].Item, nil
}

// IDs returns the ids of items, in order.
func IDs(items []mayfly.Item) []mayfly.ID {
	all := make([]mayfly.ID, len(items))
	for i, item := range items {
		all[i] = item.ID
	}
	return all
}
