package sweep_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/sweep"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// reminders are those that are due between two instants.
func (h *house) reminders(from, to mayfly.Instant) (all []remind.Reminder) {
	h.Helper()
	for minute := from.Minute(); minute <= to.Minute(); minute++ {
		for shard := range mayfly.Shard(mayfly.Shards) {
			rows, err := h.set.Rows.Range(h.Context(), store.Reminders, store.Range{Partition: remind.Partition(minute, shard), Limit: 1000})
			if err != nil {
				h.Fatal(err)
			}
			for _, row := range rows {
				r, err := remind.Read(row)
				if err != nil {
					h.Fatal(err)
				}
				all = append(all, r)
			}
		}
	}
	return all
}

func (h *house) hasBody(id mayfly.ID) bool {
	h.Helper()
	found, err := h.set.Ledger.Body(h.Context(), id)
	if err != nil {
		h.Fatal(err)
	}
	return found[0].Found
}

func TestWhatIsPurgedIsErasedAfterItsEvent(t *testing.T) {
	h := open(t)
	purge, archive := h.born(mayfly.Purge), h.born(mayfly.Archive)
	h.o.Erase = func(ctx context.Context, b walk.Batch) ([]walk.Failure, error) {
		h.wantEvents(archive.ID, purge.ID) // the news come first (L15)
		if len(b.Items) != 1 || b.Items[0] != h.row(purge.ID) || b.Now != deadline {
			t.Errorf("to be erased: %+v", b)
		}
		return h.erase(ctx, b)
	}
	h.mustAct(deadline, true, purge, archive)
	if h.hasBody(purge.ID) || !h.hasBody(archive.ID) {
		t.Error("what is purged is erased, and nothing else")
	}
	h.o.Erase = h.erase
	h.mustAct(deadline+1, true, h.row(purge.ID)) // a repeat tells and erases again
	if !slices.Equal(h.erased, []mayfly.ID{purge.ID, purge.ID}) {
		t.Errorf("erased %v", h.erased)
	}
	h.mustAct(deadline+1, false, h.row(purge.ID)) // another look of the same run does not
	if len(h.erased) != 2 {
		t.Errorf("erased %v", h.erased)
	}
}

// An eraser that fails, for one item or altogether, or is not there, holds up
// nothing: the items are parked to be erased.
func TestWhatCouldNotBeErasedIsParkedToBeErased(t *testing.T) {
	away := mayfly.Errorf(mayfly.Unavailable, "away")
	for name, tc := range map[string]struct {
		erase  walk.Act
		failed int
		why    error
	}{
		"it fails for one": {func(_ context.Context, b walk.Batch) ([]walk.Failure, error) {
			return []walk.Failure{{Item: b.Items[1], Err: away}}, nil
		}, 1, away},
		"it fails":         {func(context.Context, walk.Batch) ([]walk.Failure, error) { return nil, away }, 2, away},
		"there is no such": {nil, 2, mayfly.Unsupported},
	} {
		t.Run(name, func(t *testing.T) {
			h := open(t)
			items := []mayfly.Item{h.born(mayfly.Purge), h.born(mayfly.Archive), h.born(mayfly.Purge)}
			h.o.Erase = tc.erase
			failures, err := h.act(deadline, true, items...)
			if err != nil || len(failures) != tc.failed || !errors.Is(failures[0].Err, tc.why) {
				t.Fatal(failures, err)
			}
			h.wantState(items[0].ID, mayfly.Deleted, 2)
			h.wantState(items[1].ID, mayfly.ExpiredHot, 2)
			h.wantEvents(items[0].ID, items[1].ID, items[2].ID)
			var b store.Batch
			for _, f := range failures {
				h.sweep().Walk().Park(&b, f, deadline.Add(time.Minute))
			}
			if err := h.set.Writer.Commit(t.Context(), &b); err != nil {
				t.Fatal(err)
			}
			r := h.reminders(deadline, deadline.Add(time.Minute))
			if len(r) != tc.failed || r[0].Step != remind.Erase {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestATombstoneThatIsHeldIsNotErased(t *testing.T) {
	h := open(t)
	item := h.born(mayfly.Purge)
	h.move(item.ID, mayfly.Active, mayfly.BySupport, hold)
	deleted := h.move(item.ID, mayfly.Deleted, mayfly.ByUser)
	deleted.Cause = mayfly.ByExpiry // as if the sweep had been the one
	h.mustAct(deadline, true, deleted)
	if len(h.erased) > 0 || !h.hasBody(item.ID) {
		t.Error("erased what is held (I21)")
	}
}

// The walk removes tombstones that were made within a day of the deadline; a
// later one is reminded of before it is made (L13, L15).
func TestALatePurgeRemindsOfItsTombstone(t *testing.T) {
	for now, late := range map[mayfly.Instant]bool{deadline.Add(24 * time.Hour): false, deadline.Add(24*time.Hour) + 1: true} {
		h := open(t)
		purge, archive := h.born(mayfly.Purge), h.born(mayfly.Archive)
		at := now.Add(31 * 24 * time.Hour)
		h.ledger.before = func([]mayfly.Change) {
			r := h.reminders(at, at)
			if late != (len(r) == 1 && r[0].ID == purge.ID && r[0].Step == remind.Tidy && r[0].Due == at) {
				t.Errorf("late %t: %+v", late, r)
			}
		}
		h.mustAct(now, true, purge, archive)
	}
}

// A reminder expires what the walks have passed: another brings the item to the
// archive. While the log is away there is none: an item that was archived before
// its event was appended could not be told expired any more (I13).
func TestExpiringByAReminderRemindsToArchiveOnceTheLogIsTold(t *testing.T) {
	for name, tc := range map[string]struct {
		now, due mayfly.Instant
	}{
		"within the window":         {deadline.Add(time.Minute), deadline.Add(90 * time.Minute)},
		"when the window is over":   {deadline.Add(89 * time.Minute), deadline.Add(91 * time.Minute)},
		"long after the window":     {deadline.Add(100 * time.Hour), deadline.Add(100*time.Hour + 2*time.Minute)},
		"at the millisecond itself": {deadline, deadline.Add(90 * time.Minute)},
	} {
		t.Run(name, func(t *testing.T) {
			h := open(t)
			archive, purge, gone := h.born(mayfly.Archive), h.born(mayfly.Purge), h.born(mayfly.Archive)
			gone = h.move(gone.ID, mayfly.Deleted, mayfly.ByUser)
			h.log.err = mayfly.Errorf(mayfly.Unavailable, "no broker")
			batch := func() walk.Batch {
				return walk.Batch{Items: []mayfly.Item{h.row(archive.ID), h.row(purge.ID), h.row(gone.ID)}, Now: tc.now, Repeat: true}
			}
			if _, err := h.sweep().Expire(t.Context(), batch()); !errors.Is(err, mayfly.Unavailable) {
				t.Fatal(err)
			}
			h.wantState(archive.ID, mayfly.ExpiredHot, 2)
			if r := h.reminders(tc.now, tc.due); len(r) > 0 {
				t.Errorf("before the log was told: %+v", r)
			}
			h.log.err = nil
			if failures, err := h.sweep().Expire(t.Context(), batch()); err != nil || len(failures) > 0 {
				t.Fatal(failures, err)
			}
			if r := h.reminders(tc.now, tc.due); len(r) != 1 || r[0].ID != archive.ID || r[0].Step != remind.Archive || r[0].Due != tc.due {
				t.Errorf("%+v, want one due at %s", r, tc.due)
			}
			h.wantState(archive.ID, mayfly.ExpiredHot, 2)
			h.wantState(purge.ID, mayfly.Deleted, 2)
			h.wantState(gone.ID, mayfly.Deleted, 2)
			h.wantEvents(archive.ID, purge.ID)
		})
	}
	h := open(t)
	early := h.born(mayfly.Archive)
	if failures, err := h.sweep().Expire(t.Context(), walk.Batch{Items: []mayfly.Item{early}, Now: deadline - 1, Repeat: true}); err != nil || len(failures) > 0 {
		t.Fatal(failures, err)
	}
	h.wantState(early.ID, mayfly.Active, 1)
	if r := h.reminders(deadline, deadline.Add(2*time.Hour)); len(r) > 0 {
		t.Errorf("%+v", r)
	}
}

func TestSettingsOutOfRangeAreRefused(t *testing.T) {
	for _, o := range []sweep.Options{{Window: -1}, {RemindAfter: -1}} {
		if _, err := sweep.New(store.Set{}, o); !errors.Is(err, mayfly.Invalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	for _, o := range []sweep.ReconcileOptions{{Stuck: -1}, {Soon: time.Hour, Late: time.Hour}} {
		if _, err := sweep.NewReconcile(store.Set{}, o); !errors.Is(err, mayfly.Invalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
