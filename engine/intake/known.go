package intake

import (
	"context"
	"fmt"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// Known says which birth an idempotency key of owner stands for at now: a
// Publish with it is a retry of that birth and makes no other.
func (in *Intake) Known(ctx context.Context, owner mayfly.UserID, key string, now mayfly.Instant) (id mayfly.ID, known bool, err error) {
	if key == "" || owner.IsZero() {
		return mayfly.ID{}, false, nil
	}
	found, err := in.set.Rows.Get(ctx, store.Idempotency, store.Key{Partition: string(owner[:]), Clustering: key})
	if err != nil {
		return mayfly.ID{}, false, fmt.Errorf("look up the idempotency key: %w", err)
	}
	if found[0] == nil {
		return mayfly.ID{}, false, nil
	}
	c, err := readClaim(found[0])
	if err != nil {
		return mayfly.ID{}, false, err
	}
	return c.id, now < c.id.Birth().Add(in.o.KeepKeys), nil
}
