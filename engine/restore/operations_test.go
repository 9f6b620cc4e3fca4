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

// firstShard makes every id fall into one shard, so that one walker does.
type firstShard struct{}

func (firstShard) Read(p []byte) (int, error) {
	n, err := io.ReadFull(rand.Reader, p)
	p[7] &^= mayfly.Shards - 1
	return n, err
}

// deed is something that support does to an item, and what comes before it.
type deed struct {
	name  string
	setup func(h *house) (mayfly.Item, error)
	do    func(h *house, r *restore.Restore, item mayfly.Item) error
}

// deeds are all of them.
func deeds() (all []deed) {
	ctx := context.Background()
	bring := func(h *house, r *restore.Restore, item mayfly.Item) error {
		_, err := r.Item(ctx, h.request(item.ID), h.now)
		return err
	}
	hold := func(h *house, r *restore.Restore, item mayfly.Item) error {
		return r.Hold(ctx, item.ID, "ben", "case 9", h.now)
	}
	release := func(h *house, r *restore.Restore, item mayfly.Item) error {
		return r.Release(ctx, item.ID, "ben", "closed", h.now)
	}
	undo := func(h *house, r *restore.Restore, item mayfly.Item) error {
		_, err := r.Undo(ctx, item.Run, restore.UndoRequest{By: "ben", Reason: "clock"}, h.now)
		return err
	}
	for s := range stages {
		at := func(h *house) (mayfly.Item, error) { return h.at(s, 2) }
		all = append(
			all, deed{"restore " + s.String(), at, bring}, deed{"hold " + s.String(), at, hold},
			deed{"release " + s.String(), heldAt(s, false), release}, deed{"release deleted " + s.String(), heldAt(s, true), release},
		)
	}
	return append(all, deed{"undo", wrongSweep, undo})
}

// heldAt is an item that somebody has held long since, and deleted if so told.
func heldAt(s stage, deleted bool) func(h *house) (mayfly.Item, error) {
	return func(h *house) (mayfly.Item, error) {
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

// wrongSweep is an item that a walk with a clock three hours ahead has expired.
func wrongSweep(h *house) (mayfly.Item, error) {
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
	delete(h.walkers, item.ID.Shard()) // of another process that has lost its shard
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
		err = fmt.Errorf("it was not swept: %+v", row)
	}
	return row, err
}

// whole says what is wrong with an item at any moment: what is not deleted, or is
// held, has all its bytes, by the row (I2, I21); deleted stays deleted (I7).
func (h *house) whole(before mayfly.Item) error {
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
		row.State = mayfly.ExpiredHot // hydrate opens nothing that is deleted
	}
	if _, err := h.readable(row); err != nil {
		return fmt.Errorf("LOST: %w", err)
	}
	return nil
}

// settled says what is wrong with an item when all reminders have passed: it is
// held, or where its life ends, with nothing left beside what the row names, and
// its events told. A restore that lands behind its first reminder is not told;
// an entry of the restored set that lands behind all of them is the store's to
// reclaim.
func (h *house) settled(before mayfly.Item, lands landing) error {
	row, err := h.row(before.ID)
	if err != nil {
		return err
	}
	if err := h.whole(before); err != nil {
		return err
	}
	told, err := h.events(before.ID)
	if err != nil {
		return err
	}
	verbs := map[mayfly.Verb]bool{}
	for key := range told {
		verbs[key.Verb] = true
	}
	if row.Held {
		if !verbs[mayfly.WasHeld] && before.Generation != row.Generation {
			return fmt.Errorf("held, and not told: %v", told)
		}
		return nil
	}
	if row.ServesUntil != 0 && lands < between && !verbs[mayfly.WasRestored] {
		return fmt.Errorf("restored, and not told: %v", told)
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

// picture tells states apart: the row, and which objects are there.
func (h *house) picture(id mayfly.ID) (string, error) {
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
	told, err := h.events(id)
	return fmt.Sprint(row.State, row.Generation, row.Held, row.Keys, row.ServesUntil > 0, objects, there, len(told)), err
}
