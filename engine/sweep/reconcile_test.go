package sweep_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/sweep"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/fixture"
	"github.com/mayflyhq/mayfly/test/pace"
)

func (e *engine) reconcile() *sweep.Reconcile {
	e.Helper()
	r, err := sweep.NewReconcile(e.Set, sweep.ReconcileOptions{})
	if err != nil {
		e.Fatal(err)
	}
	return r
}

const day = 24 * time.Hour

// claimed is an item that the archive has claimed at an instant.
func (e *engine) claimed(at mayfly.Instant) mayfly.Item {
	e.Helper()
	item := e.born(mayfly.Archive)
	e.move(item.ID, mayfly.ExpiredHot, mayfly.ByExpiry)
	return e.move(item.ID, mayfly.Archiving, mayfly.ByArchive, func(c *mayfly.Change) { c.At = at })
}

// What is a defect when, by the row alone.
func TestWhatReconcileFindsAndWhatItLeaves(t *testing.T) {
	const early, late = 5 * time.Minute, day
	at := func(after time.Duration) func(*mayfly.Change) {
		return func(c *mayfly.Change) { c.At = deadline.Add(after) }
	}
	for name, tc := range map[string]struct {
		item  func(e *engine) mayfly.Item
		after time.Duration // its deadline, the look
		step  remind.Step   // 0 is no defect
	}{
		"active":                                {func(e *engine) mayfly.Item { return e.born(mayfly.Archive) }, early, remind.Expire},
		"active, not yet due for a second look": {func(e *engine) mayfly.Item { return e.born(mayfly.Archive) }, early - 1, 0},
		"active, to be purged":                  {func(e *engine) mayfly.Item { return e.born(mayfly.Purge) }, early, remind.Expire},
		"active, to be purged, held": {func(e *engine) mayfly.Item {
			return e.move(e.born(mayfly.Purge).ID, mayfly.Active, mayfly.BySupport, hold)
		}, late, 0},
		"active and restored, serving": {func(e *engine) mayfly.Item {
			item := e.move(e.born(mayfly.Archive).ID, mayfly.ExpiredHot, mayfly.ByExpiry)
			return e.move(item.ID, mayfly.Active, mayfly.BySupport, func(c *mayfly.Change) { c.ServesUntil = deadline.Add(2 * day) })
		}, late, 0},
		"restored and ended just now": {func(e *engine) mayfly.Item {
			item := e.move(e.born(mayfly.Archive).ID, mayfly.ExpiredHot, mayfly.ByExpiry)
			return e.move(item.ID, mayfly.Active, mayfly.BySupport, func(c *mayfly.Change) { c.ServesUntil = deadline.Add(day - time.Minute) })
		}, late, 0},
		"restored and ended a while ago": {func(e *engine) mayfly.Item {
			item := e.move(e.born(mayfly.Archive).ID, mayfly.ExpiredHot, mayfly.ByExpiry)
			return e.move(item.ID, mayfly.Active, mayfly.BySupport, func(c *mayfly.Change) { c.ServesUntil = deadline.Add(day - time.Hour) })
		}, late, remind.Expire},
		"expired": {func(e *engine) mayfly.Item {
			return e.move(e.born(mayfly.Archive).ID, mayfly.ExpiredHot, mayfly.ByExpiry)
		}, early, 0},
		"expired and not archived in time": {func(e *engine) mayfly.Item {
			return e.move(e.born(mayfly.Archive).ID, mayfly.ExpiredHot, mayfly.ByExpiry)
		}, 2 * time.Hour, remind.Archive},
		"expired and just in time": {func(e *engine) mayfly.Item {
			return e.move(e.born(mayfly.Archive).ID, mayfly.ExpiredHot, mayfly.ByExpiry)
		}, 2*time.Hour - time.Millisecond, 0},
		"expired late, a moment ago": {func(e *engine) mayfly.Item {
			return e.move(e.born(mayfly.Archive).ID, mayfly.ExpiredHot, mayfly.ByExpiry, at(day-time.Minute))
		}, late, 0},
		"expired and held": {func(e *engine) mayfly.Item {
			item := e.move(e.born(mayfly.Archive).ID, mayfly.ExpiredHot, mayfly.ByExpiry)
			return e.move(item.ID, mayfly.ExpiredHot, mayfly.BySupport, hold)
		}, late, 0},
		"claimed long ago":       {func(e *engine) mayfly.Item { return e.claimed(deadline.Add(2 * time.Hour)) }, late, remind.Archive},
		"claimed a while ago":    {func(e *engine) mayfly.Item { return e.claimed(deadline.Add(day - time.Hour)) }, late, remind.Archive},
		"claimed in this moment": {func(e *engine) mayfly.Item { return e.claimed(deadline.Add(day-time.Hour) + 1) }, late, 0},
		"claimed and held": {func(e *engine) mayfly.Item {
			return e.move(e.claimed(deadline.Add(2*time.Hour)).ID, mayfly.Archiving, mayfly.BySupport, hold)
		}, late, 0},
		"cold": {func(e *engine) mayfly.Item {
			return e.move(e.claimed(deadline.Add(2*time.Hour)).ID, mayfly.Cold, mayfly.ByArchive)
		}, late, 0},
		"deleted and not erased": {func(e *engine) mayfly.Item {
			return e.move(e.born(mayfly.Archive).ID, mayfly.Deleted, mayfly.ByUser, at(-time.Hour))
		}, early, remind.Erase},
		"deleted within the hour": {func(e *engine) mayfly.Item {
			return e.move(e.born(mayfly.Purge).ID, mayfly.Deleted, mayfly.ByExpiry, at(0))
		}, early, 0},
		"deleted and erased": {func(e *engine) mayfly.Item {
			item := e.move(e.born(mayfly.Archive).ID, mayfly.Deleted, mayfly.ByUser, at(-time.Hour))
			if err := e.Set.Ledger.EraseBody(e.Context(), item.ID); err != nil {
				e.Fatal(err)
			}
			return item
		}, late, 0},
		"deleted and held": {func(e *engine) mayfly.Item {
			e.move(e.born(mayfly.Archive).ID, mayfly.Active, mayfly.BySupport, hold)
			item, err := e.Set.Ledger.Walk(e.Context(), store.Stretch{Minute: deadline.Minute(), Shard: 5, To: deadline}, 1)
			if err != nil {
				e.Fatal(err)
			}
			return e.move(item[0].ID, mayfly.Deleted, mayfly.ByUser, at(-time.Hour))
		}, late, 0},
	} {
		t.Run(name, func(t *testing.T) {
			e := open(t)
			item := tc.item(e)
			now := deadline.Add(tc.after)
			r := e.reconcile()
			if failures, err := r.Act(t.Context(), walk.Batch{Items: []mayfly.Item{item}, Now: now, Run: run}); err != nil || len(failures) > 0 {
				t.Fatal(failures, err)
			}
			if e.Row(item.ID) != item {
				t.Error("a second look moved the row")
			}
			notes := e.Reminders(now, now.Add(2*time.Minute))
			switch {
			case tc.step == 0 && (len(notes) > 0 || r.Found() != sweep.Found{}):
				t.Errorf("%+v, %+v", notes, r.Found())
			case tc.step != 0 && (len(notes) != 1 || notes[0].Step != tc.step || notes[0].ID != item.ID || r.Found().Total() != 1):
				t.Errorf("%+v, %+v", notes, r.Found())
			}
		})
	}
}

// The whole way: one of each defect is planted behind the walks, each is found
// once, and put on its way by its reminder. Where nothing is planted nothing is
// found.
func TestEachDefectIsFoundOnceAndPutOnItsWay(t *testing.T) {
	pace.Heavy(t, "a day of walks")
	for _, plant := range []bool{false, true} {
		e := open(t)
		origin := deadline.Add(-time.Hour)
		var healthy []mayfly.Item
		for n := range 50 {
			healthy = append(healthy, e.born([]mayfly.Fate{mayfly.Archive, mayfly.Purge}[n%2]))
		}
		o := walk.Options{Holder: "test", Unpaced: true, RemindAfter: 2 * time.Minute}
		shard := walk.NewShard(e.Set.Rows, 5, o.Holder, time.Minute, origin)
		r, s := e.reconcile(), e.sweep()
		archive := walk.Walk{Name: "archive", Offset: 90 * time.Minute, Behind: "sweep", Act: e.archive, Park: s.Walk().Park}
		var walkers []interface {
			Pass(ctx context.Context, now mayfly.Instant) (bool, error)
		}
		for _, w := range append(r.Walks(), s.Walk(), archive) {
			walker, err := walk.New(e.Set, w, shard, o)
			if err != nil {
				t.Fatal(err)
			}
			walkers = append(walkers, walker)
		}
		reminders, err := remind.New(e.Set, shard, remind.Acts{remind.Expire: s.Expire, remind.Archive: e.archive, remind.Erase: e.erase}, remind.Options{})
		if err != nil {
			t.Fatal(err)
		}
		walkers = append(walkers, reminders)
		planted := map[mayfly.ID]mayfly.State{}
		passes := 0
		for now := origin; now < deadline.Add(2*day); now = now.Add(30 * time.Second) {
			if after := now.Sub(deadline); plant && len(planted) == 0 && after > time.Minute && after < 4*time.Minute {
				planted[e.born(mayfly.Archive).ID] = mayfly.Cold // births that landed behind the sweep
				planted[e.born(mayfly.Purge).ID] = mayfly.Deleted
			}
			if after := now.Sub(deadline); plant && len(planted) == 2 && after > 2*time.Hour {
				planted[e.move(e.born(mayfly.Archive).ID, mayfly.ExpiredHot, mayfly.ByExpiry).ID] = mayfly.Cold
				planted[e.claimed(now).ID] = mayfly.Cold
				planted[e.move(e.born(mayfly.Archive).ID, mayfly.Deleted, mayfly.ByUser, func(c *mayfly.Change) { c.At = now }).ID] = mayfly.Deleted
			}
			for _, w := range walkers {
				for more := true; more; passes++ {
					if more, err = w.Pass(t.Context(), now); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		want := sweep.Found{}
		if plant {
			want = sweep.Found{Active: 2, ExpiredHot: 1, Archiving: 1, Unerased: 1}
			if len(planted) != 5 {
				t.Fatalf("%d were planted", len(planted))
			}
		}
		if got := r.Found(); got != want {
			t.Errorf("planted %t: found %+v, want %+v", plant, got, want)
		}
		for _, item := range healthy {
			planted[item.ID] = map[mayfly.Fate]mayfly.State{mayfly.Archive: mayfly.Cold, mayfly.Purge: mayfly.Deleted}[item.Fate]
		}
		for id, state := range planted {
			if row := e.Row(id); row.State != state || e.HasBody(id) == (state == mayfly.Deleted) {
				t.Errorf("%+v, want %s; body %t", row, state, e.HasBody(id))
			}
		}
		storetest.Proof(t, "reconcile", map[bool]string{false: "passes of a healthy run", true: "passes with defects"}[plant], passes)
	}
}

// archive is the archive for items without media.
func (e *engine) archive(ctx context.Context, b walk.Batch) ([]walk.Failure, error) {
	for _, to := range []mayfly.State{mayfly.Archiving, mayfly.Cold} {
		for _, item := range b.Items {
			item = e.Row(item.ID)
			if item.State == mayfly.ExpiredHot && to == mayfly.Archiving || item.State == mayfly.Archiving && to == mayfly.Cold {
				e.move(item.ID, to, mayfly.ByArchive, func(c *mayfly.Change) { c.At = b.Now })
			}
		}
	}
	return nil, nil
}

// What could not be written down is not counted, and found again.
func TestADefectCountsWhenItsReminderIsDurable(t *testing.T) {
	e := open(t)
	item := e.born(mayfly.Archive)
	away := mayfly.Errorf(mayfly.Unavailable, "away")
	e.Hooks.Commit = fixture.FailCommit(away)
	r, err := sweep.NewReconcile(e.Set, sweep.ReconcileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Act(t.Context(), walk.Batch{Items: []mayfly.Item{item}, Now: deadline.Add(day)}); !errors.Is(err, away) || r.Found().Total() > 0 {
		t.Errorf("%v, %+v", err, r.Found())
	}
}
