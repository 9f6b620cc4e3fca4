package restore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/hydrate"
	"github.com/mayflyhq/mayfly/engine/restore"
	"github.com/mayflyhq/mayfly/engine/sweep"
	"github.com/mayflyhq/mayfly/engine/walk"
)

// walkAll sweeps every shard up to now, as a process with the name holder.
func (h *testFixture) walkAll(holder string, now mayfly.Instant) {
	h.Helper()
	for number := range mayfly.Shard(mayfly.Shards) {
		shard := walk.NewShard(h.real.Rows, number, holder, time.Second, h.origin)
		w, err := walk.New(h.real, sweepOf(sweep.New(h.real, sweep.Options{})), shard, walk.Options{Holder: holder, Unpaced: true, IdleSave: time.Millisecond})
		h.must(err)
		for more := true; more; {
			more, err = w.Pass(context.Background(), now)
			h.must(err)
		}
		h.must(shard.Release(context.Background()))
	}
}

func (h *testFixture) mark(id mayfly.ID) mayfly.Instant {
	h.Helper()
	shard := walk.NewShard(h.real.Rows, id.Shard(), "look", time.Second, h.origin)
	mark, err := walk.LoadWatermark(context.Background(), h.real.Rows, sweep.Name, shard)
	h.must(err)
	return mark.At
}

// wrongRun publishes stories and sweeps them with a clock three hours ahead.
func (h *testFixture) wrongRun(count int) (items []mayfly.Item, run mayfly.Run, began mayfly.Instant) {
	h.Helper()
	h.walkAll("right", h.now)
	for range count {
		item, err := h.publish(1, mayfly.Archive)
		h.must(err)
		items = append(items, item)
	}
	h.walkAll("wrong", h.now.Add(3*time.Hour))
	for _, item := range items {
		row := h.get(item.ID)
		if row.State != mayfly.ExpiredHot || row.Run == 0 || run != 0 && row.Run != run {
			h.Fatalf("%+v", row)
		}
		run = row.Run
	}
	return items, run, h.now
}

func TestAWrongRunIsUndoneAndItsItemsAreSweptAgain(t *testing.T) {
	h := open(t)
	items, run, began := h.wrongRun(12)
	h.now += 60_000
	support := h.support()
	dry, err := support.Undo(context.Background(), run, restore.UndoRequest{DryRun: true}, h.now)
	h.must(err)
	if dry.Found != 12 || dry.Ahead != 12 || dry.Restored != 0 || h.get(items[0].ID).State != mayfly.ExpiredHot {
		t.Fatalf("%+v", dry)
	}
	last := 0
	req := restore.UndoRequest{By: "ben", Reason: "the clock was wrong", Progress: func(u restore.Undone) { last = u.Restored }}
	undone, err := support.Undo(context.Background(), run, req, h.now)
	h.must(err)
	if undone.Restored != 12 || undone.Back == 0 || last != 12 {
		t.Fatalf("%+v, progress %d", undone, last)
	}
	for _, item := range items {
		row := h.get(item.ID)
		if row.State != mayfly.Active || row.End() != item.ID.Deadline() {
			t.Fatalf("%+v", row)
		}
		h.wantRead(row, hydrate.Hot)
		if at := h.mark(item.ID); at > began {
			t.Fatalf("the watermark is still at %s, the run began at %s", at, began)
		}
	}
	newborn, err := h.publishFor(6*time.Minute, 0, mayfly.Archive) // ends before the first item of the run
	h.must(err)
	again, err := support.Undo(context.Background(), run, req, h.now)
	if err != nil || again.Found != 0 || again.Restored != 0 {
		t.Fatalf("undone twice: %+v, %v", again, err)
	}
	h.now = items[0].ID.Deadline().Add(time.Minute)
	h.walkAll("later", h.now)
	for _, item := range append(items, newborn) {
		if row := h.get(item.ID); row.State != mayfly.ExpiredHot {
			t.Fatalf("not swept again: %+v", row)
		}
	}
	h.must(h.live(items[0].ID, 3*time.Hour, time.Minute))
	h.wantArchived(items[0].ID)
}

func TestAnUndoDoesNotChangeDeletedHeldOrChangedItems(t *testing.T) {
	h := open(t)
	items, run, _ := h.wrongRun(5)
	deleted, held, gone, since := items[0], items[1], items[2], items[3]
	h.must(h.change(deleted.ID, mayfly.Change{To: mayfly.Deleted, Cause: mayfly.ByUser, Run: run}))
	h.must(h.change(held.ID, mayfly.Change{Hold: mayfly.SetHold}))
	h.must(h.change(since.ID, mayfly.Change{To: mayfly.Archiving, Cause: mayfly.ByArchive, Run: 77}))
	raced := false
	h.set.Ledger = &hookedLedger{Ledger: h.real.Ledger, before: func(int) { // after the undo has found it
		if !raced {
			raced = true
			h.must(h.delete(gone.ID))
		}
	}}
	h.options.Workers = 1
	undone, err := h.support().Undo(context.Background(), run, restore.UndoRequest{By: "ben", Reason: "clock"}, h.now)
	h.must(err)
	if undone.Found != 2 || undone.Restored != 1 || undone.Refused != 1 || undone.Deleted != 1 || undone.Held != 1 || len(undone.Why) != 1 {
		t.Fatalf("%+v", undone)
	}
	for id, want := range map[mayfly.ID]mayfly.State{
		deleted.ID: mayfly.Deleted, held.ID: mayfly.ExpiredHot, gone.ID: mayfly.Deleted, since.ID: mayfly.Archiving, items[4].ID: mayfly.Active,
	} {
		if got := h.get(id).State; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestAnInvalidUndoChangesNothing(t *testing.T) {
	h := open(t)
	items, run, _ := h.wrongRun(4)
	h.now = items[0].ID.Deadline().Add(time.Hour)
	support := h.support()
	try := func(req restore.UndoRequest) error {
		_, err := support.Undo(context.Background(), run, req, h.now)
		return err
	}
	ok := restore.UndoRequest{Until: h.now.Add(time.Hour), By: "ben", Reason: "why"}
	for _, c := range []struct {
		name   string
		change func(*restore.UndoRequest)
		want   mayfly.Kind
	}{
		{"until", func(r *restore.UndoRequest) { r.Until = 0 }, mayfly.Invalid},
		{"too many", func(r *restore.UndoRequest) { r.Max = 3 }, mayfly.TooLarge},
		{"no actor", func(r *restore.UndoRequest) { r.By = "" }, mayfly.Invalid},
	} {
		req := ok
		c.change(&req)
		if err := try(req); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
		for _, item := range items {
			if h.get(item.ID).State != mayfly.ExpiredHot {
				t.Fatalf("%s: an item was changed", c.name)
			}
		}
	}
	if _, err := support.Undo(context.Background(), run+2, ok, h.now); !errors.Is(err, mayfly.NotFound) {
		t.Errorf("no such run: %v", err)
	}
	ok.Max = 4
	h.must(try(ok))
	for _, item := range items {
		if row := h.get(item.ID); row.State != mayfly.Active || row.ServesUntil != ok.Until {
			t.Fatalf("%+v", row)
		}
	}
}
