package restore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/hydrate"
	"github.com/mayflyhq/mayfly/engine/restore"
	"github.com/mayflyhq/mayfly/engine/sweep"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/test/fixture"
)

// walkAll sweeps every shard up to now, as a process with the name holder.
func (h *env) walkAll(holder string, now mayfly.Instant) {
	h.Helper()
	for number := range mayfly.Shard(mayfly.Shards) {
		shard := walk.NewShard(h.Real.Rows, number, holder, time.Second, h.origin)
		w, err := walk.New(h.Real, h.sweep(sweep.Options{}).Walk(), shard, walk.Options{Holder: holder, Unpaced: true, IdleSave: time.Millisecond})
		h.Must(err)
		h.pass(w, now)
		h.Must(shard.Release(context.Background()))
	}
}

func (h *env) mark(id mayfly.ID) mayfly.Instant {
	h.Helper()
	shard := walk.NewShard(h.Real.Rows, id.Shard(), "look", time.Second, h.origin)
	mark, err := walk.LoadWatermark(context.Background(), h.Real.Rows, sweep.Name, shard)
	h.Must(err)
	return mark.At
}

// wrongRun publishes stories and sweeps them with a clock three hours ahead.
func (h *env) wrongRun(count int) (items []mayfly.Item, run mayfly.Run, began mayfly.Instant) {
	h.Helper()
	h.walkAll("right", h.Now)
	for range count {
		item := h.Story(1)
		items = append(items, item)
	}
	h.walkAll("wrong", h.Now.Add(3*time.Hour))
	for _, item := range items {
		row := h.Row(item.ID)
		if row.State != mayfly.ExpiredHot || row.Run == 0 || run != 0 && row.Run != run {
			h.Fatalf("%+v", row)
		}
		run = row.Run
	}
	return items, run, h.Now
}

func TestAWrongRunIsUndoneAndItsItemsAreSweptAgain(t *testing.T) {
	h := open(t)
	items, run, began := h.wrongRun(12)
	h.Now += 60_000
	support := h.support()
	dry, err := support.Undo(context.Background(), run, restore.UndoRequest{DryRun: true}, h.Now)
	h.Must(err)
	if dry.Found != 12 || dry.Ahead != 12 || dry.Restored != 0 || h.Row(items[0].ID).State != mayfly.ExpiredHot {
		t.Fatalf("%+v", dry)
	}
	last := 0
	req := restore.UndoRequest{By: audit.Actor{Subject: "ben"}, Reason: "the clock was wrong", Progress: func(u restore.Undone) { last = u.Restored }}
	undone, err := support.Undo(context.Background(), run, req, h.Now)
	h.Must(err)
	if undone.Restored != 12 || undone.Back == 0 || last != 12 {
		t.Fatalf("%+v, progress %d", undone, last)
	}
	for _, item := range items {
		row := h.Row(item.ID)
		if row.State != mayfly.Active || row.End() != item.ID.Deadline() {
			t.Fatalf("%+v", row)
		}
		h.wantRead(row, hydrate.Hot)
		if at := h.mark(item.ID); at > began {
			t.Fatalf("the watermark is still at %s, the run began at %s", at, began)
		}
	}
	brief := h.Draft()
	brief.Lifetime = fixture.Lifetime(t, 6*time.Minute)
	newborn := h.Publish(brief, h.Now) // ends before the first item of the run
	again, err := support.Undo(context.Background(), run, req, h.Now)
	if err != nil || again.Found != 0 || again.Restored != 0 {
		t.Fatalf("undone twice: %+v, %v", again, err)
	}
	h.Now = items[0].ID.Deadline().Add(time.Minute)
	h.walkAll("later", h.Now)
	for _, item := range append(items, newborn) {
		if row := h.Row(item.ID); row.State != mayfly.ExpiredHot {
			t.Fatalf("not swept again: %+v", row)
		}
	}
	h.live(items[0].ID, 3*time.Hour, time.Minute)
	h.wantArchived(items[0].ID)
}

func TestAnUndoDoesNotChangeDeletedHeldOrChangedItems(t *testing.T) {
	h := open(t)
	items, run, _ := h.wrongRun(5)
	deleted, held, gone, since := items[0], items[1], items[2], items[3]
	h.Change(deleted.ID, mayfly.Change{To: mayfly.Deleted, Cause: mayfly.ByUser, Run: run})
	h.Hold(held.ID)
	h.Change(since.ID, mayfly.Change{To: mayfly.Archiving, Cause: mayfly.ByArchive, Run: 77})
	h.beforeFirst(func() { h.delete(gone.ID) }) // after the undo has found it
	h.options.Workers = 1
	undone, err := h.support().Undo(context.Background(), run, restore.UndoRequest{By: audit.Actor{Subject: "ben"}, Reason: "clock"}, h.Now)
	h.Must(err)
	if undone.Found != 2 || undone.Restored != 1 || undone.Refused != 1 || undone.Deleted != 1 || undone.Held != 1 || len(undone.Why) != 1 {
		t.Fatalf("%+v", undone)
	}
	for id, want := range map[mayfly.ID]mayfly.State{
		deleted.ID: mayfly.Deleted, held.ID: mayfly.ExpiredHot, gone.ID: mayfly.Deleted, since.ID: mayfly.Archiving, items[4].ID: mayfly.Active,
	} {
		if got := h.Row(id).State; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestAnInvalidUndoChangesNothing(t *testing.T) {
	h := open(t)
	items, run, _ := h.wrongRun(4)
	h.Now = items[0].ID.Deadline().Add(time.Hour)
	support := h.support()
	try := func(req restore.UndoRequest) error {
		_, err := support.Undo(context.Background(), run, req, h.Now)
		return err
	}
	ok := restore.UndoRequest{Until: h.Now.Add(time.Hour), By: audit.Actor{Subject: "ben"}, Reason: "why"}
	for _, c := range []struct {
		name   string
		change func(*restore.UndoRequest)
		want   mayfly.Kind
	}{
		{"until", func(r *restore.UndoRequest) { r.Until = 0 }, mayfly.Invalid},
		{"too many", func(r *restore.UndoRequest) { r.Max = 3 }, mayfly.TooLarge},
		{"no actor", func(r *restore.UndoRequest) { r.By = audit.Actor{Subject: ""} }, mayfly.Invalid},
	} {
		req := ok
		c.change(&req)
		if err := try(req); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
		for _, item := range items {
			if h.Row(item.ID).State != mayfly.ExpiredHot {
				t.Fatalf("%s: an item was changed", c.name)
			}
		}
	}
	if _, err := support.Undo(context.Background(), run+2, ok, h.Now); !errors.Is(err, mayfly.NotFound) {
		t.Errorf("no such run: %v", err)
	}
	ok.Max = 4
	h.Must(try(ok))
	for _, item := range items {
		if row := h.Row(item.ID); row.State != mayfly.Active || row.ServesUntil != ok.Until {
			t.Fatalf("%+v", row)
		}
	}
}
