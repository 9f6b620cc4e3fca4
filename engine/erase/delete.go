package erase

import (
	"context"
	"errors"
	"fmt"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// Delete ends an item for good, whatever state it is in (ST5): when it returns
// nil no route of ours shows it any more. Its bytes go soon after, by Act. An
// item that is deleted already is deleted: no error. What is held and deleted by
// its author is hidden and keeps its bytes until it is released (L16). Errors:
// NotFound, Conflict (it is held, and it is not its author who deletes),
// Invalid (the cause), Unavailable, Unknown; after the last two, ask again.
func (e *Erase) Delete(ctx context.Context, id mayfly.ID, cause mayfly.Cause, now mayfly.Instant) (mayfly.Item, error) {
	item, err := e.delete(ctx, id, cause, now)
	if err != nil {
		return mayfly.Item{}, fmt.Errorf("delete %s: %w", id, err)
	}
	return item, nil
}

// Tombstone is the row of an item that is deleted. It stays for weeks after what
// it named is erased (L13); false if there is none. Errors: Unavailable.
func (e *Erase) Tombstone(ctx context.Context, id mayfly.ID) (mayfly.Item, bool, error) {
	row, err := e.read(ctx, id)
	if errors.Is(err, mayfly.NotFound) {
		return mayfly.Item{}, false, nil
	}
	return row, err == nil && row.State == mayfly.Deleted, err
}

func (e *Erase) delete(ctx context.Context, id mayfly.ID, cause mayfly.Cause, now mayfly.Instant) (mayfly.Item, error) {
	if cause != mayfly.ByUser && cause != mayfly.ByAccount && cause != mayfly.BySupport {
		return mayfly.Item{}, mayfly.Errorf(mayfly.Invalid, "nobody deletes by %s", cause)
	}
	row, err := e.read(ctx, id)
	if err != nil {
		return mayfly.Item{}, err
	}
	if row.State == mayfly.Deleted {
		return row, e.tell(ctx, row)
	}
	if row.Held && cause != mayfly.ByUser {
		return mayfly.Item{}, errHeld(row, nil)
	}
	deed, cancel := e.detached(ctx)
	defer cancel()
	if err := e.remind(deed, id, cause, now); err != nil {
		return mayfly.Item{}, err
	}
	ended, err := e.end(deed, row, cause, now)
	if err != nil {
		e.hint(ctx, row) // it may have been deleted all the same
		return mayfly.Item{}, err
	}
	return ended, e.tell(ctx, ended)
}

// detached is a context for a deletion that has begun: it goes to its end also
// when whoever asked for it has gone. A row that is deleted, and of which no
// cache was told, would be shown on (ST5, I7).
func (e *Erase) detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), e.o.Timeout)
}

// tell tells caches and log of deleted rows, in a time of its own: the deletion
// may have used up its. When it returns nil no cache shows them any more.
func (e *Erase) tell(ctx context.Context, rows ...mayfly.Item) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.o.Timeout+store.CacheWait)
	defer cancel()
	if err := store.Invalidate(ctx, e.set.Signals, signals(rows...)...); err != nil {
		return err
	}
	_ = e.tellLog(ctx, rows...) // the reminder tells it again
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
	return mayfly.Wrap(mayfly.Conflict, why, "release it first: only its author deletes what is held, and its bytes stay")
}

// rounds is how often a deletion that met a moving row is composed again: more
// often than a row moves while somebody looks.
const rounds = 16

// end moves the row to deleted. Where an outcome is in doubt no nonce need be
// compared: deleted is final, so a row that shows another state has not been
// deleted by an earlier try, and one that shows it is, whoever did it.
func (e *Erase) end(ctx context.Context, row mayfly.Item, cause mayfly.Cause, now mayfly.Instant) (mayfly.Item, error) {
	var last error
	for range rounds {
		if row.State == mayfly.Deleted {
			return row, nil
		}
		outcomes, err := e.set.Ledger.Transition(ctx, []mayfly.Change{ending(row, cause, now)})
		outcome := store.Outcome{Result: store.InDoubt}
		if err == nil {
			outcome = outcomes[0]
		}
		switch last = err; outcome.Result {
		case store.Applied, store.Stale:
			row = outcome.Current
		case store.Missing:
			return row, mayfly.Errorf(mayfly.NotFound, "there is no item %s", row.ID)
		case store.Refused:
			return row, errHeld(row, outcome.Err)
		default:
			if row, err = e.read(ctx, row.ID); err != nil {
				return row, mayfly.Wrap(mayfly.Unknown, err, askAgain)
			}
		}
	}
	if row.State == mayfly.Deleted {
		return row, nil
	}
	if last == nil {
		last = mayfly.Errorf(mayfly.Unavailable, "the row keeps changing")
	}
	return row, mayfly.Wrap(mayfly.Unavailable, last, askAgain)
}

const askAgain = "try again: deleting twice is deleting once"

// signals tell every cache of rows.
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

// hint tells the caches of rows whose deletion is in doubt, and waits for
// nobody: should it land later, the reminder tells them again.
func (e *Erase) hint(ctx context.Context, rows ...mayfly.Item) {
	ctx, cancel := e.detached(ctx)
	defer cancel()
	_ = store.PublishAll(ctx, e.set.Signals, signals(rows...)...)
}

// tellLog appends the deletion of rows. What expiry ended the sweep has told.
func (e *Erase) tellLog(ctx context.Context, rows ...mayfly.Item) error {
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
