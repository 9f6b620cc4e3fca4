package erase

import (
	"context"
	"errors"
	"fmt"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// Delete ends an item for good, in any state (ST5): when it returns nil, no route
// shows the item any more. Its bytes are erased soon after, by Act. Deleting a
// deleted item is no error. A held item that its author deletes is hidden and
// keeps its bytes until it is released (L16). Errors: NotFound, Conflict (the item
// is held and the cause is not its author), Invalid (the cause), Unavailable,
// Unknown; after the last two, call it again.
func (e *Erase) Delete(ctx context.Context, id mayfly.ID, cause mayfly.Cause, now mayfly.Instant) (mayfly.Item, error) {
	item, err := e.delete(ctx, id, cause, now)
	if err != nil {
		return mayfly.Item{}, fmt.Errorf("delete %s: %w", id, err)
	}
	return item, nil
}

// Row returns the row of an item as the ledger has it, not a cache, for callers that
// end items; false if there is none. Errors: Unavailable.
func (e *Erase) Row(ctx context.Context, id mayfly.ID) (mayfly.Item, bool, error) {
	row, err := store.ItemOf(ctx, e.set.Ledger, id)
	if errors.Is(err, mayfly.NotFound) {
		return mayfly.Item{}, false, nil
	}
	return row, err == nil, err
}

// Tombstone returns the row of a deleted item, which stays for weeks after the
// item was erased (L13); false if there is none. Errors: Unavailable.
func (e *Erase) Tombstone(ctx context.Context, id mayfly.ID) (mayfly.Item, bool, error) {
	row, found, err := e.Row(ctx, id)
	return row, found && row.State == mayfly.Deleted, err
}

func (e *Erase) delete(ctx context.Context, id mayfly.ID, cause mayfly.Cause, now mayfly.Instant) (mayfly.Item, error) {
	if cause != mayfly.ByUser && cause != mayfly.ByAccount && cause != mayfly.BySupport && cause != mayfly.ByReader {
		return mayfly.Item{}, mayfly.Errorf(mayfly.Invalid, "invalid delete cause %s", cause)
	}
	row, err := store.ItemOf(ctx, e.set.Ledger, id)
	if err != nil {
		return mayfly.Item{}, err
	}
	if row.State == mayfly.Deleted {
		return row, e.announce(ctx, row)
	}
	if row.Held && cause != mayfly.ByUser {
		return mayfly.Item{}, errHeld(row, nil)
	}
	detached, cancel := e.detached(ctx)
	defer cancel()
	if err := e.remind(detached, id, cause, now); err != nil {
		return mayfly.Item{}, err
	}
	ended, err := e.end(detached, row, cause, now)
	if err != nil {
		e.hint(ctx, row) // it may have been deleted
		return mayfly.Item{}, err
	}
	return ended, e.announce(ctx, ended)
}

// DeleteAll deletes rows of one account, as they were just read, in a few calls.
// It returns those that are deleted and shown by no cache any more, and the ids of
// those that are held. A row that does not exist any more is in neither. The
// reminders come first, also for rows that are deleted already: an index entry is
// removed before the body, and nothing else finds an item that a crash leaves in
// between.
func (e *Erase) DeleteAll(ctx context.Context, rows []mayfly.Item, now mayfly.Instant) (gone []mayfly.Item, held []mayfly.ID, err error) {
	if len(rows) == 0 {
		return nil, nil, nil
	}
	detached, cancel := e.detached(ctx)
	defer cancel()
	var b store.Batch
	for _, row := range rows {
		e.Remind(&b, row.ID, "erased with its account", now)
	}
	if err := e.set.Writer.Commit(detached, &b); err != nil {
		return nil, nil, fmt.Errorf("write %d reminders: %w", len(rows), err)
	}
	for i, row := range e.endTogether(detached, rows, now) {
		// A deleted row stays as it is; one that moved, or is in doubt, is ended alone.
		switch row, err := e.end(detached, row, mayfly.ByAccount, now); {
		case errors.Is(err, mayfly.NotFound):
		case errors.Is(err, mayfly.Conflict), err == nil && row.Held:
			held = append(held, row.ID)
		case err != nil:
			e.hint(ctx, rows...) // any of them may have been deleted
			return nil, nil, fmt.Errorf("delete %s: %w", rows[i].ID, err)
		default:
			gone = append(gone, row)
		}
	}
	return gone, held, e.announce(ctx, gone...)
}

// endTogether tries to delete all rows in one call and returns each as it is
// known afterwards.
func (e *Erase) endTogether(ctx context.Context, rows []mayfly.Item, now mayfly.Instant) []mayfly.Item {
	after := append([]mayfly.Item(nil), rows...)
	var changes []mayfly.Change
	var at []int
	for i, row := range rows {
		if row.State != mayfly.Deleted {
			changes, at = append(changes, ending(row, mayfly.ByAccount, now)), append(at, i)
		}
	}
	outcomes, err := walk.Transition(ctx, e.set.Ledger, changes)
	if err != nil {
		return after // each is tried alone and reports its own error
	}
	for n, outcome := range outcomes {
		if outcome.Result == store.Applied || outcome.Result == store.Stale {
			after[at[n]] = outcome.Current
		}
	}
	return after
}

// ending returns the change that deletes a row as it was read.
func ending(row mayfly.Item, cause mayfly.Cause, now mayfly.Instant) mayfly.Change {
	return walk.Compose(row, mayfly.Change{To: mayfly.Deleted, Cause: cause, At: now})
}

// detached returns a context for a deletion that has begun: it is finished also
// when the caller has gone. A row that is deleted without a signal would still be
// shown from caches (ST5, I7).
func (e *Erase) detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), e.o.Timeout)
}

// announce notifies caches and log of deleted rows, with a timeout of its own: the
// deletion may have used up its timeout. When it returns nil no cache shows them.
func (e *Erase) announce(ctx context.Context, rows ...mayfly.Item) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.o.Timeout+store.CacheWait)
	defer cancel()
	if err := store.Invalidate(ctx, e.set.Signals, signals(rows...)...); err != nil {
		return err
	}
	var b store.Batch
	for _, row := range rows {
		engine.LeaveRings(&b, row)
	}
	_ = e.set.Writer.Commit(ctx, &b) // the reminder does both again
	_ = e.appendEvents(ctx, rows...)
	return nil
}

func (e *Erase) remind(ctx context.Context, id mayfly.ID, cause mayfly.Cause, now mayfly.Instant) error {
	var b store.Batch
	e.Remind(&b, id, "deleted by "+cause.String(), now)
	if err := e.set.Writer.Commit(ctx, &b); err != nil {
		return fmt.Errorf("write the reminder: %w", err)
	}
	return nil
}

func errHeld(row mayfly.Item, why error) error {
	if why == nil {
		why = mayfly.Errorf(mayfly.Conflict, "%s is held", row.ID)
	}
	return mayfly.Wrap(mayfly.Conflict, why, "release it first: only its author can delete a held item, and its bytes stay")
}

// rounds is how often a deletion is composed again because the row changed
// meanwhile: more often than a row changes in that time.
const rounds = 16

// end moves the row to deleted. Deleted is final: a row in another state was not
// deleted by an earlier try, and a deleted one is deleted no matter by which caller.
func (e *Erase) end(ctx context.Context, row mayfly.Item, cause mayfly.Cause, now mayfly.Instant) (mayfly.Item, error) {
	var last error
	for range rounds {
		if row.State == mayfly.Deleted {
			return row, nil
		}
		outcome, err := walk.TransitionOne(ctx, e.set.Ledger, ending(row, cause, now))
		if err != nil {
			return row, mayfly.Wrap(mayfly.Unknown, err, tryAgain)
		}
		switch outcome.Result {
		case store.Missing:
			return row, mayfly.Errorf(mayfly.NotFound, "there is no item %s", row.ID)
		case store.Refused:
			return row, errHeld(row, outcome.Err)
		default:
			row, last = outcome.Current, outcome.Err
		}
	}
	if row.State == mayfly.Deleted {
		return row, nil
	}
	if last == nil {
		last = mayfly.Errorf(mayfly.Unavailable, "the row keeps changing")
	}
	return row, mayfly.Wrap(mayfly.Unavailable, last, tryAgain)
}

const tryAgain = "try again: deleting an item twice is safe"

// signals returns what invalidates rows in every cache.
func signals(rows ...mayfly.Item) []store.Signal {
	all := make([]store.Signal, 0, len(rows))
	for _, row := range rows {
		all = append(all, store.Signal{Topic: store.RowChanged, ID: row.ID})
		if row.ServesUntil != 0 {
			all = append(all, store.Signal{Topic: store.RestoredSet, ID: row.ID})
		}
	}
	return all
}

// hint notifies caches of rows whose deletion is in doubt and does not wait for
// them: if the deletion lands later, the reminder notifies them again.
func (e *Erase) hint(ctx context.Context, rows ...mayfly.Item) {
	ctx, cancel := e.detached(ctx)
	defer cancel()
	_ = store.PublishAll(ctx, e.set.Signals, signals(rows...)...)
}

// appendEvents appends the deletion of rows to the log. For items that expiry
// ended, the sweep has appended it.
func (e *Erase) appendEvents(ctx context.Context, rows ...mayfly.Item) error {
	var events []mayfly.Event
	for _, row := range rows {
		if row.State == mayfly.Deleted && row.Cause != mayfly.ByExpiry {
			events = append(events, mayfly.EventOf(row, mayfly.WasDeleted))
		}
	}
	if len(events) == 0 {
		return nil
	}
	if err := e.set.Log.Append(ctx, events...); err != nil {
		return fmt.Errorf("append %d events: %w", len(events), walk.Away(err))
	}
	return nil
}
