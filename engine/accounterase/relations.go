package erase

import (
	"context"

	"golang.org/x/sync/errgroup"

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

// wipes is how many relations of a page are removed at once.
const wipes = 16

// eraseRelations removes the user's rows of one direction, and of each what the
// other side's partition says of the user: that first, because the row here is
// what a pass after a crash finds it by.
func (e *Erase) eraseRelations(ctx context.Context, r *Receipt, t store.Table) error {
	return e.partition(ctx, t, string(r.User[:]), func(page []store.Row) error {
		keys, changed := make([]store.Key, len(page)), make([]store.Signal, len(page))
		for i, row := range page {
			if len(row.Clustering) != len(r.User) {
				return mayfly.Errorf(mayfly.Corrupt, "a key of %d bytes", len(row.Clustering))
			}
			keys[i] = store.Key{Partition: row.Clustering, Clustering: string(r.User[:])}
			changed[i] = store.Signal{Topic: store.RelationsChanged, Owner: mayfly.UserID([]byte(row.Clustering))}
		}
		mirrored, err := e.set.Rows.Get(ctx, mirror(t), keys...)
		if err != nil {
			return err
		}
		g, together := errgroup.WithContext(ctx)
		g.SetLimit(wipes)
		for i, row := range page {
			g.Go(func() error {
				if mirrored[i] != nil {
					if err := e.wipe(together, mirror(t), keys[i], mirrored[i]); err != nil {
						return err
					}
				}
				return e.wipe(together, t, store.Key{Partition: string(r.User[:]), Clustering: row.Clustering}, row.Value)
			})
		}
		err = g.Wait()
		// What is cached about who is erased grants nothing: no token of theirs is good any more.
		if t == store.Related {
			_ = store.PublishAll(ctx, e.set.Signals, changed...)
		}
		if err != nil {
			return err
		}
		for i := range page {
			r.count(t, 1)
			if mirrored[i] != nil {
				r.count(mirror(t), 1)
			}
		}
		return nil
	})
}
