package restore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/restore"
	"github.com/mayflyhq/mayfly/engine/sweep"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// firstShard is a random source that puts all ids into one shard, so that one walker
// is enough.
type firstShard struct{}

func (firstShard) Read(p []byte) (int, error) {
	n, err := io.ReadFull(rand.Reader, p)
	p[7] &^= mayfly.Shards - 1
	return n, err
}

// operation is an operation of support on an item, with its setup.
type operation struct {
	name  string
	setup func(h *fixture) (mayfly.Item, error)
	do    func(h *fixture, r *restore.Restore, item mayfly.Item) error
}

// operations returns all operations, at all stages.
func operations() (all []operation) {
	ctx := context.Background()
	bring := func(h *fixture, r *restore.Restore, item mayfly.Item) error {
		_, err := r.Item(ctx, h.request(item.ID), h.now)
		return err
	}
	hold := func(h *fixture, r *restore.Restore, item mayfly.Item) error {
		return r.Hold(ctx, item.ID, "ben", "case 9", h.now)
	}
	release := func(h *fixture, r *restore.Restore, item mayfly.Item) error {
		return r.Release(ctx, item.ID, "ben", "closed", h.now)
	}
	undo := func(h *fixture, r *restore.Restore, item mayfly.Item) error {
		_, err := r.Undo(ctx, item.Run, restore.UndoRequest{By: "ben", Reason: "clock"}, h.now)
		return err
	}
	for s := range stages {
		at := func(h *fixture) (mayfly.Item, error) { return h.at(s, 2) }
		all = append(
			all, operation{"restore " + s.String(), at, bring}, operation{"hold " + s.String(), at, hold},
			operation{"release " + s.String(), heldAt(s, false), release}, operation{"release deleted " + s.String(), heldAt(s, true), release},
		)
	}
	return append(all, operation{"undo", wrongSweep, undo})
}

// heldAt sets up an item that was held two hours ago, and optionally deleted.
func heldAt(s stage, deleted bool) func(h *fixture) (mayfly.Item, error) {
	return func(h *fixture) (mayfly.Item, error) {
		item, err := h.at(s, 2)
		if err != nil {
			return item, err
		}
		if err := h.change(item.ID, mayfly.Change{Hold: mayfly.SetHold}); err != nil {
			return item, err
		}
		if deleted {
			if err := h.delete(item.ID); err != nil {
				return item, err
			}
		}
		if err := h.live(item.ID, 2*time.Hour, 10*time.Minute); err != nil {
			return item, err
		}
		return h.row(item.ID)
	}
}

// wrongSweep sets up an item that a walk with a clock three hours ahead has expired.
func wrongSweep(h *fixture) (mayfly.Item, error) {
	item, err := h.publish(2, mayfly.Archive)
	if err != nil {
		return item, err
	}
	holder := fmt.Sprintf("wrong-%d", h.now)
	shard := walk.NewShard(h.real.Rows, item.ID.Shard(), holder, time.Second, h.origin)
	w, err := walk.New(h.real, sweepOf(sweep.New(h.real, sweep.Options{})), shard, walk.Options{Holder: holder, Unpaced: true})
	if err != nil {
		return item, err
	}
	delete(h.walkers, item.ID.Shard()) // it belongs to a process that has lost its shard
	for more := true; more; {
		if more, err = w.Pass(context.Background(), h.now.Add(3*time.Hour)); err != nil {
			return item, err
		}
	}
	var b store.Batch
	remind.Write(&b, remind.Reminder{Due: item.ID.Deadline().Add(window), ID: item.ID, Step: remind.Archive, Reason: "the walk"})
	err = errors.Join(h.real.Writer.Commit(context.Background(), &b), shard.Release(context.Background()))
	if err != nil {
		return item, err
	}
	row, err := h.row(item.ID)
	if err == nil && row.State != mayfly.ExpiredHot {
		err = fmt.Errorf("not swept: %+v", row)
	}
	return row, err
}

// intact checks what must be true at any moment: an item that is held or not deleted
// has all its media (I2, I21), and a deleted item stays deleted (I7).
func (h *fixture) intact(before mayfly.Item) error {
	row, err := h.row(before.ID)
	if err != nil {
		return err
	}
	if before.State == mayfly.Deleted && row.State != mayfly.Deleted {
		return fmt.Errorf("RESURRECTED: %+v", row)
	}
	if row.State == mayfly.Deleted && !row.Held {
		return nil
	}
	if row.State == mayfly.Deleted {
		row.State = mayfly.ExpiredHot // hydrate does not open deleted items
	}
	if _, err := h.readable(row); err != nil {
		return fmt.Errorf("LOST: %w", err)
	}
	return nil
}

// settled checks what must be true after all reminders: the item is held or in its
// final state, no other objects are left, and its events are in the log. There is no
// event for a restore that lands after its first reminder, and the store reclaims an
// entry of the restored set that lands after all of them.
func (h *fixture) settled(before mayfly.Item, lands landing) error {
	row, err := h.row(before.ID)
	if err != nil {
		return err
	}
	if err := h.intact(before); err != nil {
		return err
	}
	events, err := h.events(before.ID)
	if err != nil {
		return err
	}
	verbs := map[mayfly.Verb]bool{}
	for key := range events {
		verbs[key.Verb] = true
	}
	if row.Held {
		if !verbs[mayfly.WasHeld] && before.Generation != row.Generation {
			return fmt.Errorf("held without an event: %v", events)
		}
		return nil
	}
	if row.ServesUntil != 0 && lands < between && !verbs[mayfly.WasRestored] {
		return fmt.Errorf("restored without an event: %v", events)
	}
	left, err := h.unnamed(row)
	if err != nil {
		return err
	}
	there, err := h.restoredEntry(before.ID)
	if err != nil {
		return err
	}
	if row.State != mayfly.Cold && row.State != mayfly.Deleted || len(left) > 0 || there && lands != atLast {
		return fmt.Errorf("ORPHAN: %s, left %v, in the restored set: %t", row.State, left, there)
	}
	return nil
}

// picture describes a state: the row and which objects exist.
func (h *fixture) picture(id mayfly.ID) (string, error) {
	row, err := h.row(id)
	if err != nil {
		return "", err
	}
	objects := ""
	for _, key := range mediaKeys(row, row.Generation+2) {
		for _, tier := range []store.Blobs{h.real.Hot, h.real.Cold} {
			_, err := tier.Stat(context.Background(), key)
			switch {
			case err == nil:
				objects += "1"
			case errors.Is(err, mayfly.NotFound):
				objects += "0"
			default:
				return "", err
			}
		}
	}
	there, err := h.restoredEntry(id)
	if err != nil {
		return "", err
	}
	events, err := h.events(id)
	return fmt.Sprint(row.State, row.Generation, row.Held, row.Keys, row.ServesUntil > 0, objects, there, len(events)), err
}
