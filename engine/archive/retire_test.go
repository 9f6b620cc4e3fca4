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
)

const years = 3 * 365 * 24 * time.Hour

func (h *fixture) retirement(after time.Duration) *archive.Retire {
	h.Helper()
	r, err := archive.NewRetire(h.set, archive.RetireOptions{After: after, Erase: h.o.Erase})
	h.must(err)
	return r
}

// retire acts on items once.
func (h *fixture) retire(run mayfly.Run, items ...mayfly.Item) ([]walk.Failure, error) {
	h.Helper()
	return h.retirement(years).Act(context.Background(), h.batch(run, h.rows(items)...))
}

// archivedStories are stories in cold.
func (h *fixture) archivedStories(media ...int) (items []mayfly.Item) {
	h.Helper()
	for _, n := range media {
		items = append(items, h.story(n))
	}
	items = h.expire(items...)
	if failures, err := h.archive(7, items...); err != nil || len(failures) > 0 {
		h.Fatal(failures, err)
	}
	return h.rows(items)
}

func TestWhatWasColdForItsYearsIsDeletedAndErased(t *testing.T) {
	h := open(t)
	items := h.archivedStories(2, 0, 1)
	over := items[0].ID.Deadline().Add(years)
	h.now = over - 1
	if failures, err := h.retire(8, items...); err != nil || len(failures) > 0 || h.left(items) > 0 {
		t.Fatal(failures, err, "a millisecond early something was done")
	}
	var signalled []mayfly.ID
	sub, err := h.real.Signals.Subscribe(t.Context(), func(s store.Signal) { signalled = append(signalled, s.ID) })
	h.must(err)
	defer sub.Close()
	h.now = over
	for run := range mayfly.Run(2) { // the second time it tells and erases again, and moves nothing
		if failures, err := h.retire(8+run, items...); err != nil || len(failures) > 0 {
			t.Fatal(failures, err)
		}
	}
	for _, item := range h.rows(items) {
		if item.State != mayfly.Deleted || item.Cause != mayfly.ByRetention || item.Run != 8 {
			t.Errorf("%+v", item)
		}
	}
	h.exact(items...)
	if events := h.events(mayfly.WasDeleted); len(events) != 3 || len(signalled) < 3 {
		t.Errorf("%v, %v", events, signalled)
	}
	if r := h.reminders(h.now.Add(31*24*time.Hour-time.Hour), h.now.Add(31*24*time.Hour+time.Hour)); len(r) > 0 {
		t.Errorf("the walk removes tombstones that were made in time: %+v", r)
	}
}

func TestStatesThatMayAndMayNotBeRetired(t *testing.T) {
	for name, tc := range map[string]struct {
		prepare func(h *fixture, item mayfly.Item)
		want    mayfly.State
		remind  bool
	}{
		"expired and never archived": {want: mayfly.Deleted, prepare: func(h *fixture, item mayfly.Item) {
			h.change(item.ID, mayfly.Change{To: mayfly.Active, ServesUntil: h.now + 1})
			h.now += 2
			h.change(item.ID, mayfly.Change{To: mayfly.ExpiredHot, Cause: mayfly.ByExpiry})
		}},
		"claimed": {want: mayfly.Deleted, prepare: func(h *fixture, item mayfly.Item) {
			h.change(item.ID, mayfly.Change{To: mayfly.Active, ServesUntil: h.now + 1})
			h.now += 2
			h.change(item.ID, mayfly.Change{To: mayfly.ExpiredHot, Cause: mayfly.ByExpiry})
			h.change(item.ID, mayfly.Change{To: mayfly.Archiving, Cause: mayfly.ByArchive})
		}},
		"held": {want: mayfly.Cold, prepare: func(h *fixture, item mayfly.Item) {
			h.change(item.ID, mayfly.Change{Hold: mayfly.SetHold})
		}},
		"serving again": {want: mayfly.Active, remind: true, prepare: func(h *fixture, item mayfly.Item) {
			h.change(item.ID, mayfly.Change{To: mayfly.Active, ServesUntil: item.ID.Deadline().Add(years + time.Hour)})
		}},
		"waiting for the sweep": {want: mayfly.Active, remind: true, prepare: func(h *fixture, item mayfly.Item) {
			h.change(item.ID, mayfly.Change{To: mayfly.Active, ServesUntil: h.now + 1})
		}},
		"deleted by its author": {want: mayfly.Deleted, prepare: func(h *fixture, item mayfly.Item) {
			h.change(item.ID, mayfly.Change{To: mayfly.Deleted, Cause: mayfly.ByUser})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			h := open(t)
			item := h.archivedStories(1)[0]
			tc.prepare(h, item)
			before := h.row(item.ID)
			h.now = item.ID.Deadline().Add(years)
			if failures, err := h.retire(8, item); err != nil || len(failures) > 0 {
				t.Fatal(failures, err)
			}
			row := h.row(item.ID)
			if row.State != tc.want || (tc.want != mayfly.Deleted || before.State == mayfly.Deleted) && row != before {
				t.Errorf("%+v", row)
			}
			if tc.want != mayfly.Deleted {
				h.readable(item.ID, hydrate.Cold)
			}
			r := h.reminders(h.now, h.now.Add(3*time.Hour))
			due := max(row.ServesUntil, h.now).Add(90 * time.Minute)
			if tc.remind != (len(r) == 1 && r[0].Step == remind.Retire && r[0].Due == due) || !tc.remind && len(r) > 0 {
				t.Fatalf("%+v, want one for %s: %t", r, due, tc.remind)
			}
			if !tc.remind {
				return
			}
			h.now = due // it has ended by then, and is retired by its reminder
			h.change(item.ID, mayfly.Change{To: mayfly.ExpiredHot, Cause: mayfly.ByExpiry})
			if failures, err := h.retire(0, item); err != nil || len(failures) > 0 {
				t.Fatal(failures, err)
			}
			h.exact(item)
			r = h.reminders(h.now.Add(31*24*time.Hour-time.Hour), h.now.Add(31*24*time.Hour+time.Hour))
			if row := h.row(item.ID); row.State != mayfly.Deleted || len(r) > 1 {
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
			h.now = items[0].ID.Deadline().Add(years)
			away := mayfly.Errorf(mayfly.Unavailable, "away")
			parked := remind.Retire
			switch step {
			case "the answer of the change is lost":
				h.set.Ledger = doubtful{h.real.Ledger, nil}
			case "the answer is lost and the row cannot be read":
				h.set.Ledger = doubtful{h.real.Ledger, away}
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
				if err != nil || len(failures) > 0 || len(h.events(mayfly.WasDeleted)) != 1 {
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
				w.Park(&b, failures[0], h.now.Add(time.Hour))
				h.must(h.real.Writer.Commit(t.Context(), &b))
				if r := h.reminders(h.now, h.now.Add(time.Hour)); !ok || len(r) != 1 || r[0].Step != parked {
					t.Errorf("%+v", r)
				}
			}
			h.set.Ledger, h.o.Erase = h.real.Ledger, h.erase
			if failures, err := h.retire(9, items...); err != nil || len(failures) > 0 {
				t.Fatal(failures, err)
			}
			h.exact(items...)
			if events := h.events(mayfly.WasDeleted); len(events) != 1 || h.row(items[0].ID).Run != 8 {
				t.Errorf("%v", events)
			}
		})
	}
}

// doubtful is a ledger whose changes happen and whose answers are lost. Rows are
// read with an error if there is one.
type doubtful struct {
	store.Ledger
	err error
}

func (d doubtful) Get(ctx context.Context, ids ...mayfly.ID) ([]store.Found, error) {
	if d.err != nil {
		return nil, d.err
	}
	return d.Ledger.Get(ctx, ids...)
}

func (d doubtful) Transition(ctx context.Context, changes []mayfly.Change) ([]store.Outcome, error) {
	outcomes, err := d.Ledger.Transition(ctx, changes)
	for i := range outcomes {
		outcomes[i] = store.Outcome{Result: store.InDoubt}
	}
	return outcomes, err
}

func TestForEverIsNoWalk(t *testing.T) {
	h := open(t)
	items := h.archivedStories(1)
	w, ok := h.retirement(0).Walk()
	h.now = items[0].ID.Deadline().Add(50 * years)
	if failures, err := w.Act(t.Context(), h.batch(8, items...)); ok || err != nil || len(failures) > 0 {
		t.Fatal(ok, failures, err)
	}
	h.readable(items[0].ID, hydrate.Cold)
	w, ok = h.retirement(years).Walk()
	if !ok || w.Name != "retire" || w.Offset != years || w.Behind != "archive" {
		t.Errorf("%+v", w)
	}
	if _, err := archive.NewRetire(h.set, archive.RetireOptions{After: time.Hour}); !errors.Is(err, mayfly.Invalid) {
		t.Errorf("before the archive has been there: %v", err)
	}
}
