package erase

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// eraseOwned deletes and erases the items that a page of the owner index names.
// Each step is one call for the page, and so is the wait for caches that cannot
// be told.
func (e *Erase) eraseOwned(ctx context.Context, r *Receipt, page []store.Row, now mayfly.Instant) error {
	names := make([]mayfly.ID, len(page))
	for i, row := range page {
		if len(row.Clustering) != len(mayfly.ID{}) {
			return mayfly.Errorf(mayfly.Corrupt, "owner index: a key of %d bytes", len(row.Clustering))
		}
		names[i] = mayfly.ID([]byte(row.Clustering))
	}
	found, err := e.set.Ledger.Get(ctx, names...)
	if err != nil {
		return fmt.Errorf("read %d rows: %w", len(names), err)
	}
	var rows []mayfly.Item
	var strays store.Batch
	var bodies []mayfly.ID // that strays may have
	for i, id := range names {
		switch row := found[i].Item; {
		case !found[i].Found:
			// Its birth was abandoned, or is in flight: then the entry is what the
			// second pass will find it by.
			if id.Birth().Add(e.o.Settle) <= now {
				strays.Delete(store.Owners, store.OwnerKey(r.User, id))
				bodies = append(bodies, id)
				r.count(store.Owners, 1)
			}
		case row.Held:
			r.hold(id)
		default:
			rows = append(rows, row)
		}
	}
	gone, err := e.endOwned(ctx, r, rows, now)
	if err != nil {
		return err
	}
	if _, err := e.Act(ctx, walk.Batch{Items: gone, Now: now, Repeat: true}); err != nil {
		return err
	}
	for _, item := range gone {
		r.erased(item)
	}
	if len(bodies) == 0 {
		return nil
	}
	if err := e.set.Ledger.EraseBody(ctx, bodies...); err != nil { // while the entries name them
		return fmt.Errorf("bodies of %d abandoned births: %w", len(bodies), err)
	}
	return e.set.Writer.Commit(ctx, &strays)
}

// endOwned deletes rows, and answers with those that are deleted and shown by no
// cache any more. The reminders come first, also for those that somebody else has
// deleted: an index entry goes before the body does, and no pass finds an item
// that a crash leaves in between.
func (e *Erase) endOwned(ctx context.Context, r *Receipt, rows []mayfly.Item, now mayfly.Instant) (gone []mayfly.Item, err error) {
	if len(rows) == 0 {
		return nil, nil
	}
	deed, cancel := e.detached(ctx)
	defer cancel()
	var b store.Batch
	for _, row := range rows {
		e.Remind(&b, row.ID, "erased with its account", now)
	}
	if err := e.set.Writer.Commit(deed, &b); err != nil {
		return nil, fmt.Errorf("write %d reminders: %w", len(rows), err)
	}
	for i, row := range e.endTogether(deed, rows, now) {
		// Deleted it stays as it is; one that moved, or is in doubt, is ended alone.
		switch row, err := e.end(deed, row, mayfly.ByAccount, now); {
		case errors.Is(err, mayfly.NotFound):
		case errors.Is(err, mayfly.Conflict), err == nil && row.Held:
			r.hold(row.ID)
		case err != nil:
			e.hint(ctx, rows...) // any of them may have been deleted
			return nil, fmt.Errorf("delete %s: %w", rows[i].ID, err)
		default:
			gone = append(gone, row)
		}
	}
	return gone, e.tell(ctx, gone...)
}

// endTogether tries to delete rows at once, and answers with each as it is known
// then.
func (e *Erase) endTogether(ctx context.Context, rows []mayfly.Item, now mayfly.Instant) []mayfly.Item {
	after := append([]mayfly.Item(nil), rows...)
	var changes []mayfly.Change
	var at []int
	for i, row := range rows {
		if row.State != mayfly.Deleted {
			changes, at = append(changes, ending(row, mayfly.ByAccount, now)), append(at, i)
		}
	}
	if len(changes) == 0 {
		return after
	}
	outcomes, err := e.set.Ledger.Transition(ctx, changes)
	if err != nil {
		return after // each is tried alone, and says what is the matter
	}
	for n, outcome := range outcomes {
		if outcome.Result == store.Applied || outcome.Result == store.Stale {
			after[at[n]] = outcome.Current
		}
	}
	return after
}

// ending is the change that deletes a row as it was read.
func ending(row mayfly.Item, cause mayfly.Cause, now mayfly.Instant) mayfly.Change {
	return mayfly.Change{
		ID: row.ID, From: row.State, Generation: row.Generation, To: mayfly.Deleted,
		Nonce: mayfly.Nonce(rand.Uint64() | 1), Cause: cause, At: now,
	}
}
