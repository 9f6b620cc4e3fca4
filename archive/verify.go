package archive

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// copyItem copies the media of a claimed item to cold, under the generation of
// the claim, and reads each copy back from the cold side.
func (p *pass) copyItem(ctx context.Context, item mayfly.Item, body store.FoundBody) error {
	if !body.Found || len(body.Body.Media) != int(item.Media) {
		return mayfly.Errorf(mayfly.Corrupt, "the body of %s does not name its media", item.ID)
	}
	for n, medium := range body.Body.Media {
		from, to := item.MediaKey(item.Keys.Hot, n), item.MediaKey(item.Generation, n)
		if _, err := p.set.Hot.CopyTo(ctx, p.set.Cold, from, to); err != nil {
			return fmt.Errorf("copy %s: %w", from, err)
		}
		if err := verify(ctx, p.set.Cold, to, medium); err != nil {
			return fmt.Errorf("verify %s: %w", to, err)
		}
	}
	return nil
}

// verify reads a copy back and compares it with what was uploaded. What the copy
// call said of itself counts for nothing (L9).
func verify(ctx context.Context, cold store.Blobs, key mayfly.BlobKey, medium mayfly.Medium) error {
	r, _, err := cold.Open(ctx, key, store.Span{})
	if err != nil {
		return err
	}
	h := sha256.New()
	size, err := io.Copy(h, r)
	if err := errors.Join(err, r.Close()); err != nil {
		return err
	}
	if size != medium.Size || [32]byte(h.Sum(nil)) != medium.SHA256 {
		return mayfly.Errorf(mayfly.Corrupt, "%d bytes are there, and they are not the %d that were uploaded", size, medium.Size)
	}
	return nil
}
