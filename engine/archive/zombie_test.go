package archive_test

import (
	"context"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/hydrate"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/storetest"
)

// stopAt lets do run while a worker stands still at one of its steps.
func (h *fixture) stopAt(step string, do func()) {
	h.Helper()
	at := func(call, at int) {
		if call == at {
			do()
		}
	}
	l := &transitions{Ledger: h.real.Ledger}
	h.set.Ledger = l
	switch step {
	case "claim":
		l.after = func(call int) { at(call, 1) }
	case "copy":
		l.before = func(call int) { at(call, 2) }
	case "name":
		l.after = func(call int) { at(call, 2) }
	case "erase":
		l.before = func(call int) { at(call, 3) }
	default:
		h.Fatalf("no step %s", step)
	}
}

// meanwhile is what others may do to an item while a worker stands still.
func meanwhile() map[string]func(h *fixture, item mayfly.Item) {
	archive := func(h *fixture, item mayfly.Item) {
		real := *h
		real.set = h.real
		if failures, err := real.archive(8, h.row(item.ID)); err != nil || len(failures) > 0 {
			h.Fatal(failures, err)
		}
	}
	restore := func(h *fixture, item mayfly.Item) {
		row := h.row(item.ID)
		ctx, g := context.Background(), row.Generation+1
		for n := range int(row.Media) { // to new keys, from wherever there is a copy
			from, key := h.real.Hot, row.MediaKey(row.Keys.Hot, n)
			if _, err := from.Stat(ctx, key); err != nil {
				from, key = h.real.Cold, row.MediaKey(row.Keys.Cold, n)
			}
			_, err := from.CopyTo(ctx, h.real.Hot, key, row.MediaKey(g, n))
			h.must(err)
		}
		h.change(item.ID, mayfly.Change{To: mayfly.Active, Cause: mayfly.BySupport, ServesUntil: h.now.Add(24 * time.Hour), Keys: &mayfly.Keys{Hot: g}})
		for n := range int(row.Media) { // what it was restored from
			old := row.MediaKey(row.Keys.Hot, n)
			h.must(h.real.Hot.Delete(ctx, old))
			if row.Keys.Cold != 0 {
				h.must(h.real.Cold.Delete(ctx, row.MediaKey(row.Keys.Cold, n)))
			}
		}
	}
	remove := func(h *fixture, item mayfly.Item) {
		h.change(item.ID, mayfly.Change{To: mayfly.Deleted, Cause: mayfly.ByUser})
		_, err := h.erase(context.Background(), h.batch(0, h.row(item.ID)))
		h.must(err)
	}
	return map[string]func(h *fixture, item mayfly.Item){
		"nothing":  func(*fixture, mayfly.Item) {},
		"takeover": archive,
		"restore":  restore,
		"delete":   remove,
		"takeover, then restore": func(h *fixture, item mayfly.Item) {
			archive(h, item)
			restore(h, item)
		},
		"takeover, then delete": func(h *fixture, item mayfly.Item) {
			archive(h, item)
			remove(h, item)
		},
		"restore, expiry and archive": func(h *fixture, item mayfly.Item) {
			restore(h, item)
			later := *h
			later.now = h.row(item.ID).ServesUntil.Add(2 * time.Hour)
			later.change(item.ID, mayfly.Change{To: mayfly.ExpiredHot, Cause: mayfly.ByExpiry})
			archive(&later, item)
		},
		"restore, then delete": func(h *fixture, item mayfly.Item) {
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
				items := h.expire(h.story(2), h.story(1))
				var left mayfly.Item // the row as the others left it
				h.stopAt(step, func() {
					do(h, items[0])
					left = h.row(items[0].ID)
					tried++
				})
				if failures, err := h.archive(7, items...); err != nil || len(failures) > 0 {
					t.Fatal(failures, err)
				}
				row := h.row(items[0].ID)
				switch {
				case left.ID.IsZero():
					t.Fatal("it was not stopped")
				case what == "nothing" && (row.State != mayfly.Cold || row.Run != 7):
					t.Fatalf("%+v", row)
				case what != "nothing" && row != left:
					t.Fatalf("the worker wrote\n%+v over\n%+v", row, left)
				}
				if row.State != mayfly.Deleted {
					h.readable(row.ID, 0)
				}
				if other := h.row(items[1].ID); other.State != mayfly.Cold || other.Run != 7 {
					t.Errorf("the other item of the batch: %+v", other)
				}
				h.readable(items[1].ID, 0)
				h.exact(items...)
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
	items := h.expire(h.story(2))
	h.set.Ledger = &askedTwice{Ledger: h.real.Ledger}
	if failures, err := h.archive(7, items...); err != nil || len(failures) > 0 {
		t.Fatal(failures, err)
	}
	if row := h.row(items[0].ID); row.State != mayfly.Archiving || row.Keys.Cold == 0 {
		t.Fatalf("%+v", row)
	}
	h.exact(items...)
	h.set = h.real // the next pass takes over
	if failures, err := h.archive(8, h.rows(items)...); err != nil || len(failures) > 0 {
		t.Fatal(failures, err)
	}
	h.readable(items[0].ID, hydrate.Cold)
	h.exact(items...)
}

// askedTwice is a ledger that answers its second call as if it had been asked
// once more.
type askedTwice struct {
	store.Ledger
	calls int
}

func (l *askedTwice) Transition(ctx context.Context, changes []mayfly.Change) ([]store.Outcome, error) {
	outcomes, err := l.Ledger.Transition(ctx, changes)
	if l.calls++; l.calls == 2 {
		return l.Ledger.Transition(ctx, changes)
	}
	return outcomes, err
}
