package archive_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/archive"
	"github.com/mayflyhq/mayfly/engine/hydrate"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/fixture"
)

const years = 3 * 365 * 24 * time.Hour

func (h *env) retirement(after time.Duration) *archive.Retire {
	h.Helper()
	r, err := archive.NewRetire(h.Set, archive.RetireOptions{After: after, Erase: h.o.Erase})
	h.Must(err)
	return r
}

// retire acts on items once.
func (h *env) retire(run mayfly.Run, items ...mayfly.Item) ([]walk.Failure, error) {
	h.Helper()
	return h.retirement(years).Act(context.Background(), h.batch(run, h.rows(items)...))
}

// archivedStories are stories in cold.
func (h *env) archivedStories(media ...int) (items []mayfly.Item) {
	h.Helper()
	for _, n := range media {
		items = append(items, h.Story(n))
	}
	items = h.expire(items...)
	h.archived(7, items...)
	return h.rows(items)
}

func TestWhatWasColdForItsYearsIsDeletedAndErased(t *testing.T) {
	h := open(t)
	items := h.archivedStories(2, 0, 1)
	over := items[0].ID.Deadline().Add(years)
	h.Now = over - 1
	if failures, err := h.retire(8, items...); err != nil || len(failures) > 0 || h.left(items) > 0 {
		t.Fatal(failures, err, "a millisecond early something was done")
	}
	var signalled []mayfly.ID
	sub, err := h.Real.Signals.Subscribe(t.Context(), func(s store.Signal) { signalled = append(signalled, s.ID) })
	h.Must(err)
	defer sub.Close()
	h.Now = over
	for run := range mayfly.Run(2) { // the second time it tells and erases again, and moves nothing
		h.WantActed(h.retire(8+run, items...))
	}
	for _, item := range h.rows(items) {
		if item.State != mayfly.Deleted || item.Cause != mayfly.ByRetention || item.Run != 8 {
			t.Errorf("%+v", item)
		}
	}
	h.WantNamed(items...)
	if events := h.CountEvents(mayfly.Ends, mayfly.WasDeleted); len(events) != 3 || len(signalled) < 3 {
		t.Errorf("%v, %v", events, signalled)
	}
	if r := h.Reminders(h.Now.Add(31*24*time.Hour-time.Hour), h.Now.Add(31*24*time.Hour+time.Hour)); len(r) > 0 {
		t.Errorf("the walk removes tombstones that were made in time: %+v", r)
	}
}

func TestStatesThatMayAndMayNotBeRetired(t *testing.T) {
	for name, tc := range map[string]struct {
		prepare func(h *env, item mayfly.Item)
		want    mayfly.State
		remind  bool
	}{
		"expired and never archived": {want: mayfly.Deleted, prepare: func(h *env, item mayfly.Item) {
			h.Change(item.ID, mayfly.Change{To: mayfly.Active, ServesUntil: h.Now + 1})
			h.Now += 2
			h.Change(item.ID, mayfly.Change{To: mayfly.ExpiredHot, Cause: mayfly.ByExpiry})
		}},
		"claimed": {want: mayfly.Deleted, prepare: func(h *env, item mayfly.Item) {
			h.Change(item.ID, mayfly.Change{To: mayfly.Active, ServesUntil: h.Now + 1})
			h.Now += 2
			h.Change(item.ID, mayfly.Change{To: mayfly.ExpiredHot, Cause: mayfly.ByExpiry})
			h.Change(item.ID, mayfly.Change{To: mayfly.Archiving, Cause: mayfly.ByArchive})
		}},
		"held": {want: mayfly.Cold, prepare: func(h *env, item mayfly.Item) {
			h.Change(item.ID, mayfly.Change{Hold: mayfly.SetHold})
		}},
		"serving again": {want: mayfly.Active, remind: true, prepare: func(h *env, item mayfly.Item) {
			h.Change(item.ID, mayfly.Change{To: mayfly.Active, ServesUntil: item.ID.Deadline().Add(years + time.Hour)})
		}},
		"waiting for the sweep": {want: mayfly.Active, remind: true, prepare: func(h *env, item mayfly.Item) {
			h.Change(item.ID, mayfly.Change{To: mayfly.Active, ServesUntil: h.Now + 1})
		}},
		"deleted by its author": {want: mayfly.Deleted, prepare: func(h *env, item mayfly.Item) {
			h.Change(item.ID, mayfly.Change{To: mayfly.Deleted, Cause: mayfly.ByUser})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			h := open(t)
			item := h.archivedStories(1)[0]
			tc.prepare(h, item)
			before := h.Row(item.ID)
			h.Now = item.ID.Deadline().Add(years)
			h.WantActed(h.retire(8, item))
			row := h.Row(item.ID)
			if row.State != tc.want || (tc.want != mayfly.Deleted || before.State == mayfly.Deleted) && row != before {
				t.Errorf("%+v", row)
			}
			if tc.want != mayfly.Deleted {
				h.readable(hydrate.Cold, item)
			}
			r := h.Reminders(h.Now, h.Now.Add(3*time.Hour))
			due := max(row.ServesUntil, h.Now).Add(90 * time.Minute)
			if tc.remind != (len(r) == 1 && r[0].Step == remind.Retire && r[0].Due == due) || !tc.remind && len(r) > 0 {
				t.Fatalf("%+v, want one for %s: %t", r, due, tc.remind)
			}
			if !tc.remind {
				return
			}
			h.Now = due // it has ended by then, and is retired by its reminder
			h.Change(item.ID, mayfly.Change{To: mayfly.ExpiredHot, Cause: mayfly.ByExpiry})
			h.WantActed(h.retire(0, item))
			h.WantNamed(item)
			r = h.Reminders(h.Now.Add(31*24*time.Hour-time.Hour), h.Now.Add(31*24*time.Hour+time.Hour))
			if row := h.Row(item.ID); row.State != mayfly.Deleted || len(r) > 1 {
				t.Errorf("%s, %+v", row.State, r)
			}
		})
	}
}

func TestARetirementThatBreaksOffIsMadeGood(t *testing.T) {
	for _, step := range []string{"the answer of the change is lost", "the answer is lost and the row cannot be read", "the eraser is away", "the eraser fails for the item"} {
		t.Run(step, func(t *testing.T) {
			h := open(t)
			items := h.archivedStories(2)
			h.Now = items[0].ID.Deadline().Add(years)
			away := mayfly.Errorf(mayfly.Unavailable, "away")
			parked := remind.Retire
			switch step {
			case "the answer of the change is lost":
				h.doubt(nil)
			case "the answer is lost and the row cannot be read":
				h.doubt(away)
			case "the eraser is away":
				h.o.Erase = func(context.Context, walk.Batch) ([]walk.Failure, error) { return nil, away }
			default:
				h.o.Erase = func(_ context.Context, b walk.Batch) ([]walk.Failure, error) {
					return []walk.Failure{{Item: b.Items[0], Err: away}}, nil
				}
				parked = remind.Erase
			}
			failures, err := h.retire(8, items...)
			if step == "the answer of the change is lost" { // the row tells it
				if err != nil || len(failures) > 0 || len(h.CountEvents(mayfly.Ends, mayfly.WasDeleted)) != 1 {
					t.Fatal(failures, err)
				}
				err = away
			}
			if (err == nil) != (len(failures) == 1) || err != nil && !errors.Is(err, away) {
				t.Fatal(failures, err)
			}
			if len(failures) == 1 {
				var b store.Batch
				w, ok := h.retirement(years).Walk()
				w.Park(&b, failures[0], h.Now.Add(time.Hour))
				h.Must(h.Real.Writer.Commit(t.Context(), &b))
				if r := h.Reminders(h.Now, h.Now.Add(time.Hour)); !ok || len(r) != 1 || r[0].Step != parked {
					t.Errorf("%+v", r)
				}
			}
			h.Set, h.o.Erase = h.Real, h.EraseMedia
			h.WantActed(h.retire(9, items...))
			h.WantNamed(items...)
			if events := h.CountEvents(mayfly.Ends, mayfly.WasDeleted); len(events) != 1 || h.Row(items[0].ID).Run != 8 {
				t.Errorf("%v", events)
			}
		})
	}
}

// doubt lets changes happen and loses their answers; rows are read with err if it
// is not nil.
func (h *env) doubt(err error) {
	h.Hooks.Transition = func(ctx context.Context, changes []mayfly.Change, do fixture.Transition) ([]store.Outcome, error) {
		outcomes, err := do(ctx, changes)
		for i := range outcomes {
			outcomes[i] = store.Outcome{Result: store.InDoubt}
		}
		return outcomes, err
	}
	if err != nil {
		h.Hooks.LedgerGet = func(context.Context, []mayfly.ID, func() ([]store.Found, error)) ([]store.Found, error) {
			return nil, err
		}
	}
}

func TestForEverIsNoWalk(t *testing.T) {
	h := open(t)
	items := h.archivedStories(1)
	w, ok := h.retirement(0).Walk()
	h.Now = items[0].ID.Deadline().Add(50 * years)
	if failures, err := w.Act(t.Context(), h.batch(8, items...)); ok || err != nil || len(failures) > 0 {
		t.Fatal(ok, failures, err)
	}
	h.readable(hydrate.Cold, items[0])
	w, ok = h.retirement(years).Walk()
	if !ok || w.Name != "retire" || w.Offset != years || w.Behind != "archive" {
		t.Errorf("%+v", w)
	}
	if _, err := archive.NewRetire(h.Set, archive.RetireOptions{After: time.Hour}); !errors.Is(err, mayfly.Invalid) {
		t.Errorf("before the archive has been there: %v", err)
	}
}
