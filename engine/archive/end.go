package archive

import (
	"context"
	"fmt"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// noEraser is used when Options has no Erase: deleted items are parked, so that their
// bytes are erased later.
func noEraser(_ context.Context, b walk.Batch) ([]walk.Failure, error) {
	failures := make([]walk.Failure, len(b.Items))
	for i, item := range b.Items {
		failures[i] = walk.Failure{Item: item, Err: mayfly.Errorf(mayfly.Unsupported, "this node erases nothing: %s stays", item.ID)}
	}
	return failures, nil
}

// ending deletes items: it changes their rows, invalidates caches, appends events and
// erases their bytes (L15). After a crash the walk does the rest again from the rows.
type ending struct {
	set   store.Set
	erase walk.Act
	by    mayfly.Cause

	tombstones remind.Tombstones
	walked     time.Duration // how much later than the first the tidy walk comes that finds its tombstones
}

// ended reports whether the item was deleted by cause. A held tombstone keeps its
// bytes (I21).
func ended(item mayfly.Item, cause mayfly.Cause) bool {
	return item.State == mayfly.Deleted && item.Cause == cause && !item.Held
}

// end deletes rows. It announces and erases them, together with those that an earlier
// try has deleted.
func (e ending) end(ctx context.Context, b walk.Batch, rows, before []mayfly.Item) (failures []walk.Failure, err error) {
	if err := e.remindToTidy(ctx, b, rows); err != nil {
		return nil, err
	}
	deleted, failures, err := e.delete(ctx, b, rows)
	if err != nil {
		return nil, err
	}
	deleted = append(deleted, before...)
	if len(deleted) == 0 {
		return failures, nil
	}
	signals := make([]store.Signal, len(deleted))
	for i, item := range deleted {
		signals[i] = store.Signal{Topic: store.RowChanged, ID: item.ID}
	}
	_ = store.PublishAll(ctx, e.set.Signals, signals...) // a cache that is not reached drops them when its lease ends
	if err := e.set.Log.Append(ctx, eventsOf(deleted, mayfly.WasDeleted)...); err != nil {
		return nil, fmt.Errorf("append %d events: %w", len(deleted), walk.Away(err))
	}
	left, err := e.erase(ctx, walk.Batch{Items: deleted, Now: b.Now, Run: b.Run, Repeat: true})
	if err != nil {
		return nil, fmt.Errorf("erase %d items: %w", len(deleted), err)
	}
	return append(failures, left...), nil
}

// remindToTidy writes the reminders that remove the tombstones which come too late
// for the tidy walk (L13).
func (e ending) remindToTidy(ctx context.Context, b walk.Batch, rows []mayfly.Item) error {
	var notes store.Batch
	for _, item := range rows {
		if b.Now > item.ID.Deadline().Add(e.walked+e.tombstones.Slack) {
			remind.Write(&notes, remind.Reminder{Due: e.tombstones.Due(b.Now), ID: item.ID, Step: remind.Tidy, Reason: "deleted late by " + e.by.String()})
		}
	}
	if len(notes.Stages()) == 0 {
		return nil
	}
	if err := e.set.Writer.Commit(ctx, &notes); err != nil {
		return fmt.Errorf("remind to tidy: %w", err)
	}
	return nil
}

func (e ending) delete(ctx context.Context, b walk.Batch, rows []mayfly.Item) (deleted []mayfly.Item, failures []walk.Failure, err error) {
	changes := make([]mayfly.Change, len(rows))
	for i, item := range rows {
		changes[i] = composed(mayfly.Change{To: mayfly.Deleted}, item, e.by, b)
	}
	outcomes, err := walk.Transition(ctx, e.set.Ledger, changes)
	if err != nil {
		return nil, nil, err
	}
	fail := func(i int, err error) { failures = append(failures, walk.Failure{Item: rows[i], Err: err}) }
	for i, outcome := range outcomes {
		switch current := outcome.Current; {
		case outcome.Result == store.Applied, outcome.Result == store.Stale && ended(current, e.by):
			deleted = append(deleted, current)
		case outcome.Result == store.Missing, outcome.Result == store.Stale && (current.State == mayfly.Deleted || current.Held):
			// It does not exist any more, was deleted by another cause, or is held.
		case outcome.Result == store.Stale:
			fail(i, mayfly.Errorf(mayfly.Conflict, "%s was changed by others", rows[i].ID))
		case outcome.Result == store.Refused:
			fail(i, outcome.Err)
		default:
			fail(i, mayfly.Errorf(mayfly.Unknown, "whether %s was deleted is not known", rows[i].ID))
		}
	}
	return deleted, failures, nil
}

// leaveErased deletes the rows of owners whose account was erased: they get no cold
// copy (L9, ST14). The pass goes on with the others.
func (p *pass) leaveErased(ctx context.Context) error {
	erased, err := erasedOwners(ctx, p.set.Rows, p.rows)
	if err != nil {
		return err
	}
	var kept, theirs []mayfly.Item
	for _, item := range p.rows {
		if erased[item.Owner] {
			theirs = append(theirs, item)
		} else {
			kept = append(kept, item)
		}
	}
	p.rows = kept
	e := ending{set: p.set, erase: p.o.Erase, by: mayfly.ByAccount, tombstones: p.o.Tombstones}
	failures, err := e.end(ctx, p.batch, theirs, p.gone)
	p.failures = append(p.failures, failures...)
	return err
}

// erasedOwners returns which owners of rows were erased, with one lookup.
func erasedOwners(ctx context.Context, rows store.Rows, items []mayfly.Item) (map[mayfly.UserID]bool, error) {
	var owners []mayfly.UserID
	var keys []store.Key
	seen := make(map[mayfly.UserID]bool, len(items))
	for _, item := range items {
		if !item.Owner.IsZero() && !seen[item.Owner] {
			seen[item.Owner] = true
			owners, keys = append(owners, item.Owner), append(keys, store.Key{Partition: string(item.Owner[:])})
		}
	}
	if len(keys) == 0 {
		return nil, nil
	}
	found, err := rows.Get(ctx, engine.Erased, keys...)
	if err != nil {
		return nil, fmt.Errorf("look for erased accounts: %w", err)
	}
	erased := map[mayfly.UserID]bool{}
	for i, value := range found {
		erased[owners[i]] = value != nil
	}
	return erased, nil
}
