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
	"github.com/mayflyhq/mayfly/test/fixture"
)

func TestWhatIsPurgedIsErasedAfterItsEvent(t *testing.T) {
	e := open(t)
	purge, archive := e.born(mayfly.Purge), e.born(mayfly.Archive)
	e.options.Erase = func(ctx context.Context, b walk.Batch) ([]walk.Failure, error) {
		e.wantEvents(archive.ID, purge.ID) // the news come first (L15)
		if len(b.Items) != 1 || b.Items[0] != e.Row(purge.ID) || b.Now != deadline {
			t.Errorf("to be erased: %+v", b)
		}
		return e.erase(ctx, b)
	}
	e.mustAct(deadline, true, purge, archive)
	if e.HasBody(purge.ID) || !e.HasBody(archive.ID) {
		t.Error("what is purged is erased, and nothing else")
	}
	e.options.Erase = e.erase
	e.mustAct(deadline+1, true, e.Row(purge.ID)) // a repeat tells and erases again
	if !slices.Equal(e.erased, []mayfly.ID{purge.ID, purge.ID}) {
		t.Errorf("erased %v", e.erased)
	}
	e.mustAct(deadline+1, false, e.Row(purge.ID)) // another look of the same run does not
	if len(e.erased) != 2 {
		t.Errorf("erased %v", e.erased)
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
			e := open(t)
			items := []mayfly.Item{e.born(mayfly.Purge), e.born(mayfly.Archive), e.born(mayfly.Purge)}
			e.options.Erase = tc.erase
			failures, err := e.act(deadline, true, items...)
			if err != nil || len(failures) != tc.failed || !errors.Is(failures[0].Err, tc.why) {
				t.Fatal(failures, err)
			}
			e.WantState(items[0].ID, mayfly.Deleted, 2)
			e.WantState(items[1].ID, mayfly.ExpiredHot, 2)
			e.wantEvents(items[0].ID, items[1].ID, items[2].ID)
			var b store.Batch
			for _, f := range failures {
				e.sweep().Walk().Park(&b, f, deadline.Add(time.Minute))
			}
			if err := e.Set.Writer.Commit(t.Context(), &b); err != nil {
				t.Fatal(err)
			}
			r := e.Reminders(deadline, deadline.Add(time.Minute))
			if len(r) != tc.failed || r[0].Step != remind.Erase {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestATombstoneThatIsHeldIsNotErased(t *testing.T) {
	e := open(t)
	item := e.born(mayfly.Purge)
	e.move(item.ID, mayfly.Active, mayfly.BySupport, hold)
	deleted := e.move(item.ID, mayfly.Deleted, mayfly.ByUser)
	deleted.Cause = mayfly.ByExpiry // as if the sweep had been the one
	e.mustAct(deadline, true, deleted)
	if len(e.erased) > 0 || !e.HasBody(item.ID) {
		t.Error("erased what is held (I21)")
	}
}

// The walk removes tombstones that were made within a day of the deadline; a
// later one is reminded of before it is made (L13, L15).
func TestALatePurgeRemindsOfItsTombstone(t *testing.T) {
	for now, late := range map[mayfly.Instant]bool{deadline.Add(24 * time.Hour): false, deadline.Add(24*time.Hour) + 1: true} {
		e := open(t)
		purge, archive := e.born(mayfly.Purge), e.born(mayfly.Archive)
		at := now.Add(31 * 24 * time.Hour)
		e.Hooks.Transition = fixture.BeforeTransition(func() {
			r := e.Reminders(at, at)
			if late != (len(r) == 1 && r[0].ID == purge.ID && r[0].Step == remind.Tidy && r[0].Due == at) {
				t.Errorf("late %t: %+v", late, r)
			}
		})
		e.mustAct(now, true, purge, archive)
	}
}

// A reminder expires what the walks have passed: another brings the item to the
// archive. While the log is away there is none: an item that was archived before
// its event was appended could not be announced as expired any more (I13).
func TestExpiringByAReminderRemindsToArchiveAfterTheAppend(t *testing.T) {
	for name, tc := range map[string]struct {
		now, due mayfly.Instant
	}{
		"within the window":         {deadline.Add(time.Minute), deadline.Add(90 * time.Minute)},
		"when the window is over":   {deadline.Add(89 * time.Minute), deadline.Add(91 * time.Minute)},
		"long after the window":     {deadline.Add(100 * time.Hour), deadline.Add(100*time.Hour + 2*time.Minute)},
		"at the millisecond itself": {deadline, deadline.Add(90 * time.Minute)},
	} {
		t.Run(name, func(t *testing.T) {
			e := open(t)
			archive, purge, gone := e.born(mayfly.Archive), e.born(mayfly.Purge), e.born(mayfly.Archive)
			gone = e.move(gone.ID, mayfly.Deleted, mayfly.ByUser)
			e.Hooks.Append = fixture.FailAppend(mayfly.Errorf(mayfly.Unavailable, "no broker"))
			batch := func() walk.Batch {
				return walk.Batch{Items: []mayfly.Item{e.Row(archive.ID), e.Row(purge.ID), e.Row(gone.ID)}, Now: tc.now, Repeat: true}
			}
			if _, err := e.sweep().Expire(t.Context(), batch()); !errors.Is(err, mayfly.Unavailable) {
				t.Fatal(err)
			}
			e.WantState(archive.ID, mayfly.ExpiredHot, 2)
			if r := e.Reminders(tc.now, tc.due); len(r) > 0 {
				t.Errorf("before the event was appended: %+v", r)
			}
			e.Hooks.Append = nil
			if failures, err := e.sweep().Expire(t.Context(), batch()); err != nil || len(failures) > 0 {
				t.Fatal(failures, err)
			}
			if r := e.Reminders(tc.now, tc.due); len(r) != 1 || r[0].ID != archive.ID || r[0].Step != remind.Archive || r[0].Due != tc.due {
				t.Errorf("%+v, want one due at %s", r, tc.due)
			}
			e.WantState(archive.ID, mayfly.ExpiredHot, 2)
			e.WantState(purge.ID, mayfly.Deleted, 2)
			e.WantState(gone.ID, mayfly.Deleted, 2)
			e.wantEvents(archive.ID, purge.ID)
		})
	}
	e := open(t)
	early := e.born(mayfly.Archive)
	if failures, err := e.sweep().Expire(t.Context(), walk.Batch{Items: []mayfly.Item{early}, Now: deadline - 1, Repeat: true}); err != nil || len(failures) > 0 {
		t.Fatal(failures, err)
	}
	e.WantState(early.ID, mayfly.Active, 1)
	if r := e.Reminders(deadline, deadline.Add(2*time.Hour)); len(r) > 0 {
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
