package erase

import (
	"context"
	"errors"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// eraseTable erases the user's rows of a table by its rule. A table without a
// rule, or whose rows nobody here erases, is an error: whoever declares it says
// how its rows go.
func (e *Erase) eraseTable(ctx context.Context, r *Receipt, t store.Table) error {
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
			} else if err := e.wipe(ctx, t, key, row.Value); err != nil {
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

// wipe removes a row of a swapped table, whatever it has become meanwhile.
func (e *Erase) wipe(ctx context.Context, t store.Table, key store.Key, old []byte) error {
	for range rounds {
		swapped, current, err := e.set.Rows.Swap(ctx, t, key, old, nil, 0)
		if errors.Is(err, mayfly.Unknown) {
			var found [][]byte
			if found, err = e.set.Rows.Get(ctx, t, key); err == nil {
				current = found[0]
			}
		}
		if err != nil || swapped || current == nil {
			return err
		}
		old = current
	}
	return mayfly.Errorf(mayfly.Unavailable, "%s: the row keeps changing", t)
}

// covered says whether account erasure reaches everything that a table may say
// about a user.
func covered(t store.Table, d store.Declaration) error {
	switch d.Erasure {
	case store.PartitionIsUser, store.NoUser, store.Kept:
		return nil
	case store.PartitionIsItem: // goes with its item, in erase
		if t == store.Uploads || t == store.Views || t == store.Renditions {
			return nil
		}
	case store.NamesItems: // goes with its item, or passes by itself
		if t == store.Restored || t == store.Reminders || t == store.DeadLetters {
			return nil
		}
	}
	return mayfly.Errorf(mayfly.Invalid, "nobody erases what table %s says about a user", d.Name).
		WithHint("give it an erasure rule, and erase its rows with the item in package erase")
}
