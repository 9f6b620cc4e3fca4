package intake

import (
	"context"
	"fmt"

	"github.com/mayflyhq/mayfly"
)

// Drop deletes what an upload has stored: nobody will publish it. Without it the
// orphan collector would, a day later. An upload that was handed to a birth is
// left alone: its row may still land (L12).
func (u *Upload) Drop(ctx context.Context) error {
	if u == nil || !u.birth.IsZero() {
		return nil
	}
	u.failed = true
	keys := make([]mayfly.BlobKey, len(u.stored)+1) // and the one that failed, which may be there
	for n := range keys {
		keys[n] = mayfly.UploadKey(u.ID, n)
	}
	if err := u.in.set.Hot.Delete(ctx, keys...); err != nil {
		return fmt.Errorf("drop upload %s: %w", u.ID, err)
	}
	return nil
}
