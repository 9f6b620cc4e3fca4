package erase

import (
	"context"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// mirror is the table that says the same from the other side.
func mirror(t store.Table) store.Table {
	if t == store.Relations {
		return store.Related
	}
	return store.Relations
}

// eraseRelations removes the user's rows of one direction, and of each what the
// other side's partition says of the user: that first, because the row here is
// what a pass after a crash finds it by.
func (e *Erase) eraseRelations(ctx context.Context, r *Receipt, t store.Table) error {
	return e.partition(ctx, t, string(r.User[:]), func(page []store.Row) error {
		keys := make([]store.Key, len(page))
		for i, row := range page {
			if len(row.Sort) != len(r.User) {
				return mayfly.Errorf(mayfly.Corrupt, "a key of %d bytes", len(row.Sort))
			}
			keys[i] = store.Key{Partition: row.Sort, Sort: string(r.User[:])}
		}
		mirrored, err := e.set.Rows.Get(ctx, mirror(t), keys...)
		if err != nil {
			return err
		}
		for i, row := range page {
			if mirrored[i] != nil {
				if err := e.wipe(ctx, mirror(t), keys[i], mirrored[i]); err != nil {
					return err
				}
				r.count(mirror(t), 1)
			}
			if err := e.wipe(ctx, t, store.Key{Partition: string(r.User[:]), Sort: row.Sort}, row.Value); err != nil {
				return err
			}
			r.count(t, 1)
			if t == store.Related {
				// What is cached about who is erased grants nothing: no token of theirs is good any more.
				_ = e.set.Signals.Publish(ctx, store.Signal{Topic: store.RelationsChanged, Owner: mayfly.UserID([]byte(row.Sort))})
			}
		}
		return nil
	})
}
