package archive_test

import (
	"context"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/hydrate"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/fixture"
)

// stopAt lets do run while a worker stands still at one of its steps.
func (h *env) stopAt(step string, do func()) {
	h.Helper()
	at := func(call, at int) {
		if call == at {
			do()
		}
	}
	switch step {
	case "claim":
		h.onTransitions(nil, func(call int) { at(call, 1) })
	case "copy":
		h.onTransitions(func(call int) { at(call, 2) }, nil)
	case "name":
		h.onTransitions(nil, func(call int) { at(call, 2) })
	case "erase":
		h.onTransitions(func(call int) { at(call, 3) }, nil)
	default:
		h.Fatalf("no step %s", step)
	}
}

// meanwhile is what others may do to an item while a worker stands still.
func meanwhile() map[string]func(h *env, item mayfly.Item) {
	archive := func(h *env, item mayfly.Item) {
		h.past().archived(8, h.Row(item.ID))
	}
	restore := func(h *env, item mayfly.Item) {
		row := h.Row(item.ID)
		ctx, g := context.Background(), row.Generation+1
		for n := range int(row.Media) { // to new keys, from wherever there is a copy
			from, key := h.Real.Hot, row.MediaKey(row.Keys.Hot, n)
			if _, err := from.Stat(ctx, key); err != nil {
				from, key = h.Real.Cold, row.MediaKey(row.Keys.Cold, n)
			}
			_, err := from.CopyTo(ctx, h.Real.Hot, key, row.MediaKey(g, n))
			h.Must(err)
		}
		h.Change(item.ID, mayfly.Change{To: mayfly.Active, Cause: mayfly.BySupport, ServesUntil: h.Now.Add(24 * time.Hour), Keys: &mayfly.Keys{Hot: g}})
		for n := range int(row.Media) { // what it was restored from
			old := row.MediaKey(row.Keys.Hot, n)
			h.Must(h.Real.Hot.Delete(ctx, old))
			if row.Keys.Cold != 0 {
				h.Must(h.Real.Cold.Delete(ctx, row.MediaKey(row.Keys.Cold, n)))
			}
		}
	}
	remove := func(h *env, item mayfly.Item) {
		h.Change(item.ID, mayfly.Change{To: mayfly.Deleted, Cause: mayfly.ByUser})
		_, err := h.EraseMedia(context.Background(), h.batch(0, h.Row(item.ID)))
		h.Must(err)
	}
	return map[string]func(h *env, item mayfly.Item){
		"nothing":  func(*env, mayfly.Item) {},
		"takeover": archive,
		"restore":  restore,
		"delete":   remove,
		"takeover, then restore": func(h *env, item mayfly.Item) {
			archive(h, item)
			restore(h, item)
		},
		"takeover, then delete": func(h *env, item mayfly.Item) {
			archive(h, item)
			remove(h, item)
		},
		"restore, expiry and archive": func(h *env, item mayfly.Item) {
			restore(h, item)
			later := h.past()
			later.Now = h.Row(item.ID).ServesUntil.Add(2 * time.Hour)
			later.Change(item.ID, mayfly.Change{To: mayfly.ExpiredHot, Cause: mayfly.ByExpiry})
			archive(later, item)
		},
		"restore, then delete": func(h *env, item mayfly.Item) {
			restore(h, item)
			remove(h, item)
		},
	}
}

// A worker that stops anywhere and goes on after others have moved the item
// writes nothing to its row, deletes nothing that the row names, and leaves
// nothing behind (I10).
func TestAWorkerThatWakesUpLateWritesNothingAndDeletesOnlyWhatIsDead(t *testing.T) {
	tried := 0
	for _, step := range []string{"claim", "copy", "name", "erase"} {
		for what, do := range meanwhile() {
			t.Run(step+", "+what, func(t *testing.T) {
				h := open(t)
				items := h.expire(h.Story(2), h.Story(1))
				var left mayfly.Item // the row as the others left it
				h.stopAt(step, func() {
					do(h, items[0])
					left = h.Row(items[0].ID)
					tried++
				})
				h.archived(7, items...)
				row := h.Row(items[0].ID)
				switch {
				case left.ID.IsZero():
					t.Fatal("it was not stopped")
				case what == "nothing" && (row.State != mayfly.Cold || row.Run != 7):
					t.Fatalf("%+v", row)
				case what != "nothing" && row != left:
					t.Fatalf("the worker wrote\n%+v over\n%+v", row, left)
				}
				if row.State != mayfly.Deleted {
					h.readable(0, row)
				}
				if other := h.Row(items[1].ID); other.State != mayfly.Cold || other.Run != 7 {
					t.Errorf("the other item of the batch: %+v", other)
				}
				h.readable(0, items[1])
				h.WantNamed(items...)
			})
		}
	}
	storetest.Proof(t, "zombies of the archive", "stops × what others did", tried)
	if tried < 32 {
		t.Errorf("%d were tried", tried)
	}
}

// A change that was applied and answered as if another process had changed the row,
// as a driver may that asked twice: what the row names is not taken for a copy
// of a claim that is over.
func TestACopyThatTheRowNamesIsNotAbandoned(t *testing.T) {
	h := open(t)
	items := h.expire(h.Story(2))
	calls := 0
	h.Hooks.Transition = func(ctx context.Context, changes []mayfly.Change, do fixture.Transition) ([]store.Outcome, error) {
		outcomes, err := do(ctx, changes)
		if calls++; calls == 2 {
			return do(ctx, changes)
		}
		return outcomes, err
	}
	h.archived(7, items...)
	if row := h.Row(items[0].ID); row.State != mayfly.Archiving || row.Keys.Cold == 0 {
		t.Fatalf("%+v", row)
	}
	h.WantNamed(items...)
	h.Set = h.Real // the next pass takes over
	h.archived(8, h.rows(items)...)
	h.readable(hydrate.Cold, items[0])
	h.WantNamed(items...)
}

// I21: the hold comes when the verified cold copy is in the row and hot is not
// erased yet.
func TestAHoldBetweenTheNamingOfColdAndTheErasingOfHotKeepsBoth(t *testing.T) {
	h := open(t)
	items := h.expire(h.Story(2), h.Story(1))
	h.stopAt("name", func() {
		h.Change(items[0].ID, mayfly.Change{To: mayfly.Archiving, Hold: mayfly.SetHold, Cause: mayfly.BySupport})
	})
	h.archived(7, items...)
	held := h.Row(items[0].ID)
	if !held.Held || held.State != mayfly.Archiving || held.Keys.Hot == 0 || held.Keys.Cold == 0 {
		t.Fatalf("%+v", held)
	}
	h.WantNamed(items...) // hot of the held one is there, of the other it is not
	if other := h.Row(items[1].ID); other.State != mayfly.Cold {
		t.Fatalf("the other item of the batch: %+v", other)
	}

	h.Set = h.Real
	h.Change(held.ID, mayfly.Change{To: mayfly.Archiving, Hold: mayfly.ReleaseHold, Cause: mayfly.BySupport})
	h.archived(8, h.Row(held.ID))
	h.readable(hydrate.Cold, held)
	h.WantNamed(items...)
}
