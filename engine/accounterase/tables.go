package accounterase

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/store"
)

// eraseTable erases the user's rows of a table by its rule. A table without a
// rule is an error: its declaration says how its rows are erased.
func (e *Eraser) eraseTable(ctx context.Context, r *Receipt, t store.Table) error {
	if err := covered(t, t.Declared()); err != nil {
		return err
	}
	if t.Declared().Erasure != store.PartitionIsUser || t == store.Owners {
		return nil
	}
	switch t {
	case store.Relations, store.Related:
		return e.eraseRelations(ctx, r, t)
	case store.Seen:
		return e.eraseSeen(ctx, r)
	case store.Reservations:
		return e.eraseReservations(ctx, r)
	}
	return e.partition(ctx, t, string(r.User[:]), func(page []store.Row) error {
		var b store.Batch
		for _, row := range page {
			key := store.Key{Partition: string(r.User[:]), Clustering: row.Clustering}
			if t.Declared().Mode == store.Plain {
				b.Delete(t, key)
			} else if err := store.RemoveRow(ctx, e.set.Rows, t, key, row.Value); err != nil {
				return err
			}
		}
		r.count(t, len(page))
		if len(b.Stages()) == 0 {
			return nil
		}
		return e.set.Writer.Commit(ctx, &b)
	})
}

// covered reports whether account erasure reaches everything that a table may say
// about a user.
func covered(t store.Table, d store.Declaration) error {
	switch d.Erasure {
	case store.PartitionIsUser, store.NoUser, store.Kept:
		return nil
	case store.PartitionIsItem: // erased with the item, in package erase
		if t == store.Uploads || t == store.Views || t == store.Renditions {
			return nil
		}
	case store.NamesItems: // erased with the item, or removed by a walk
		if t == store.Restored || t == store.Reminders || t == store.DeadLetters {
			return nil
		}
	}
	return mayfly.Errorf(mayfly.Invalid, "table %s has no erasure rule that is followed", d.Name).
		WithHint("give it an erasure rule, and erase its rows with the item in package erase")
}

// mirror returns the table that holds the same relation from the other side.
func mirror(t store.Table) store.Table {
	if t == store.Relations {
		return store.Related
	}
	return store.Relations
}

// wipes is how many relations of a page are removed concurrently.
const wipes = 16

// eraseRelations removes the user's rows of one direction and the mirror row of
// each: the mirror first, because after a crash the row here is what finds it.
func (e *Eraser) eraseRelations(ctx context.Context, r *Receipt, t store.Table) error {
	return e.partition(ctx, t, string(r.User[:]), func(page []store.Row) error {
		keys, changed := make([]store.Key, len(page)), make([]store.Signal, len(page))
		for i, row := range page {
			if len(row.Clustering) != len(r.User) {
				return mayfly.Errorf(mayfly.Corrupt, "a clustering key of %d bytes", len(row.Clustering))
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
					if err := store.RemoveRow(together, e.set.Rows, mirror(t), keys[i], mirrored[i]); err != nil {
						return err
					}
				}
				return store.RemoveRow(together, e.set.Rows, t, store.Key{Partition: string(r.User[:]), Clustering: row.Clustering}, row.Value)
			})
		}
		err = g.Wait()
		// Caches about the erased user grant nothing: no token of the user is valid any more.
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

// eraseSeen removes what the user has seen and the views of it, which lie with
// the stories: those first, because the row here is what finds them.
func (e *Eraser) eraseSeen(ctx context.Context, r *Receipt) error {
	return e.partition(ctx, store.Seen, string(r.User[:]), func(page []store.Row) error {
		var b store.Batch
		for _, row := range page {
			if len(row.Clustering) != len(mayfly.ID{}) {
				return mayfly.Errorf(mayfly.Corrupt, "a clustering key of %d bytes", len(row.Clustering))
			}
			b.Delete(store.Views, store.ViewKey(mayfly.ID([]byte(row.Clustering)), r.User))
		}
		b.Then()
		for _, row := range page {
			b.Delete(store.Seen, store.Key{Partition: string(r.User[:]), Clustering: row.Clustering})
		}
		r.count(store.Seen, len(page))
		r.count(store.Views, len(page))
		return e.set.Writer.Commit(ctx, &b)
	})
}

// eraseReservations removes the user's reserved uploads with the media that have
// arrived (ST14).
func (e *Eraser) eraseReservations(ctx context.Context, r *Receipt) error {
	rows, objects, err := upload.EraseOf(ctx, e.set, r.User)
	r.Objects += objects
	r.count(store.Reservations, rows)
	return err
}
