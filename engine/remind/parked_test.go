package remind_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/test/fixture"
)

// parked writes reminders of items whose step has failed once, all due at once.
func (h *env) parked(n int) (ids []mayfly.ID) {
	h.Helper()
	all := make([]remind.Reminder, n)
	for i := range all {
		ids = append(ids, h.item())
		all[i] = remind.Reminder{Due: now.Add(soon), ID: ids[i], Step: remind.Erase, Tries: 1, Reason: "the tier was away"}
	}
	h.remind(all...)
	return ids
}

func (h *env) wantDoneOnce(step remind.Step, ids []mayfly.ID) {
	h.Helper()
	done := slices.SortedFunc(slices.Values(h.done[step]), mayfly.ID.Compare)
	slices.SortFunc(ids, mayfly.ID.Compare)
	if !slices.Equal(done, ids) || len(h.dead()) > 0 {
		h.Errorf("%d of %d done (%d times), dead %+v", len(slices.Compact(done)), len(ids), len(h.done[step]), h.dead())
	}
}

func TestRemindersOverTheBudgetCostFewRows(t *testing.T) {
	h := open(t)
	const n = 5_000
	h.parked(n)
	rows := 0
	h.Hooks.OnReminder(func(remind.Reminder) { rows++ })
	w := h.walker(remind.Options{Budget: &remind.Budget{}})
	for at := now; at < now.Add(time.Hour); at = at.Add(time.Second) {
		h.pass(w, at)
	}
	t.Logf("%d parked, one hour, the budget spent: %d rows written, %d done", n, rows, len(h.done[remind.Erase]))
	if rows > n/5 || len(h.done[remind.Erase]) < 100 {
		t.Errorf("%d rows written for %d parked reminders, %d done", rows, n, len(h.done[remind.Erase]))
	}
}

func TestRemindersThatWereOverTheBudgetAreDoneOnce(t *testing.T) {
	h := open(t)
	ids := h.parked(350)
	fresh := h.item()
	h.remind(remind.Reminder{Due: now.Add(soon) + 1, ID: fresh, Step: remind.Erase}) // among them, and within any budget
	budget := &remind.Budget{}
	w := h.walker(remind.Options{Budget: budget})
	for at := now; at < now.Add(12*time.Hour); at = at.Add(time.Minute) {
		budget.Earn(5)
		h.pass(w, at)
	}
	h.wantDoneOnce(remind.Erase, append(ids, fresh))
}

func TestAnOutageCostsNoRowPerItem(t *testing.T) {
	const short = 2 * time.Hour // less than the outage: they move on in time, and meet others that were put off
	for _, kept := range []time.Duration{remind.Kept, short, short, short, short} {
		h := open(t)
		ids := h.parked(500)
		h.fail = func(remind.Step, walk.Batch) ([]walk.Failure, error) {
			return nil, mayfly.Errorf(mayfly.Unavailable, "away")
		}
		rows := 0
		h.Hooks.OnReminder(func(r remind.Reminder) {
			if rows++; r.Tries > 1 {
				t.Errorf("%d tries", r.Tries)
			}
		})
		w := h.walker(remind.Options{Tries: 2, Kept: kept})
		back := now.Add(10 * time.Hour)
		for at := now; at < back; at = at.Add(time.Minute) {
			if _, err := w.Pass(t.Context(), at); err != nil && !errors.Is(err, mayfly.Unavailable) {
				t.Fatal(err)
			}
		}
		if rows < 5 || rows > 5*60 && kept == remind.Kept {
			t.Errorf("%d rows written in ten hours for 500 reminders", rows)
		}
		h.fail = nil
		for at := back; at < back.Add(time.Hour); at = at.Add(time.Minute) {
			h.pass(w, at)
		}
		h.wantDoneOnce(remind.Erase, ids)
	}
}

func TestWhatWasPutOffTogetherStaysApartFromOthersThatComeDueWithIt(t *testing.T) {
	h := open(t)
	ids := []mayfly.ID{h.item(), h.item(), h.item(), h.item()}
	for i, id := range ids[:2] {
		h.remind(remind.Reminder{Due: now.Add(soon).Add(time.Duration(i) * time.Millisecond), ID: id, Step: remind.Erase})
	}
	away := true
	h.fail = func(remind.Step, walk.Batch) ([]walk.Failure, error) {
		if away {
			return nil, walk.Down(mayfly.Errorf(mayfly.Unavailable, "away"))
		}
		return nil, nil
	}
	var span remind.Reminder
	h.Hooks.OnReminder(func(r remind.Reminder) { span = r })
	w, at := h.walker(remind.Options{}), now.Add(soon+settle+time.Second)
	_, err := w.Pass(t.Context(), at)
	if !errors.Is(err, mayfly.Unavailable) || span.Span.Minute != now.Add(soon).Minute() {
		t.Fatalf("%+v, %v", span, err)
	}
	for i, id := range ids[2:] { // in the minute of the span, and waiting since the same instant
		h.remind(remind.Reminder{Due: span.Due.Add(time.Duration(i+1) * time.Millisecond), ID: id, Step: remind.Erase, Waits: span.Waits})
	}
	for ; at < now.Add(2*time.Hour); at = at.Add(time.Minute) {
		away = at < now.Add(time.Hour)
		if _, err := w.Pass(t.Context(), at); err != nil && !errors.Is(err, mayfly.Unavailable) {
			t.Fatal(err)
		}
	}
	h.wantDoneOnce(remind.Erase, ids)
}

// A crash at any write loses none of those that were put off together.
func TestNoReminderThatWasPutOffIsLostWhereverTheWriterStops(t *testing.T) {
	for stop := range 12 {
		h := open(t)
		ids := h.parked(30)
		h.dieAfter(stop)
		budget := &remind.Budget{}
		w := h.walker(remind.Options{Budget: budget, Page: 10})
		for at := now; at < now.Add(time.Hour); at = at.Add(time.Minute) {
			budget.Earn(3)
			if _, err := w.Pass(t.Context(), at); err != nil {
				break
			}
		}
		h.Set = h.Real // the process starts again
		w = h.walker(remind.Options{})
		for at := now; at < now.Add(3*time.Hour); at = at.Add(time.Minute) {
			h.pass(w, at)
		}
		for _, id := range ids {
			if !slices.Contains(h.done[remind.Erase], id) {
				t.Fatalf("stopped at write %d: %s was forgotten", stop, id)
			}
		}
	}
}

func TestASlowStepHasItsOwnTimeAndNoOtherWaitsBehindIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &env{Engine: fixture.Open(t), done: map[remind.Step][]mayfly.ID{}}
		slow, erased := h.item(), h.item()
		h.remind(
			remind.Reminder{Due: now.Add(soon), ID: slow, Step: remind.Archive},
			remind.Reminder{Due: now.Add(soon + time.Second), ID: erased, Step: remind.Erase},
		)
		took := map[remind.Step]time.Duration{}
		began := time.Now()
		acts := h.acts(remind.Erase, remind.Archive)
		for step, takes := range map[remind.Step]time.Duration{remind.Archive: 4 * time.Minute, remind.Erase: time.Second} {
			act := acts[step]
			acts[step] = func(ctx context.Context, b walk.Batch) ([]walk.Failure, error) {
				select {
				case <-time.After(takes):
				case <-ctx.Done():
					return nil, mayfly.Wrap(mayfly.Unavailable, ctx.Err(), "")
				}
				took[step] = time.Since(began)
				return act(ctx, b)
			}
		}
		w, err := remind.New(h.Set, walk.NewShard(h.Set.Rows, shard, "one", time.Hour, now.Add(-time.Minute)), acts,
			remind.Options{Tries: 1, Slow: map[remind.Step]time.Duration{remind.Archive: 5 * time.Minute}})
		h.Must(err)
		var all sync.WaitGroup
		for _, lane := range w.Lanes() {
			all.Go(func() {
				if _, err := lane.Pass(t.Context(), now.Add(time.Hour)); err != nil {
					t.Errorf("%s: %v", lane.Name(), err)
				}
			})
		}
		all.Wait()
		h.wantDoneOnce(remind.Archive, []mayfly.ID{slow})
		h.wantDoneOnce(remind.Erase, []mayfly.ID{erased})
		if took[remind.Erase] > 10*time.Second || took[remind.Archive] > 5*time.Minute {
			t.Errorf("done after %v", took)
		}
	})
}

// What the slow lane has not passed is not dropped.
func TestRemindersOfASlowStepAreKeptUntilItsLaneHasPassed(t *testing.T) {
	h := open(t)
	id := h.item()
	h.remind(remind.Reminder{Due: now.Add(soon), ID: id, Step: remind.Archive})
	w, err := remind.New(h.Set, walk.NewShard(h.Set.Rows, shard, "one", 5*time.Second, now.Add(-time.Minute)), h.acts(remind.Steps()...),
		remind.Options{Kept: kept, Slow: map[remind.Step]time.Duration{remind.Archive: 5 * time.Minute}})
	h.Must(err)
	at := now
	for ; at < now.Add(5*time.Hour); at = at.Add(time.Minute) { // only the quick lane runs
		_, err := w.Lanes()[0].Pass(t.Context(), at)
		h.Must(err)
	}
	h.pass(w, at)
	h.wantDoneOnce(remind.Archive, []mayfly.ID{id})
}

// L10: items that stay unavailable while the store answers others are parked, each for
// itself, also if they are neighbours; the items behind them are done in the same pass.
func TestNeighboursThatAreStuckAreParkedAndTheWalkGoesOn(t *testing.T) {
	for name, c := range map[string]struct {
		items  int
		stuck  []int
		others bool // the others come due minutes later, and not with them
	}{
		"two at the beginning":      {20, []int{0, 1}, false},
		"two in the middle":         {20, []int{7, 8}, false},
		"two at the end":            {20, []int{18, 19}, false},
		"all but the last":          {6, []int{0, 1, 2, 3, 4}, false},
		"two alone in their minute": {20, []int{0, 1}, true},
	} {
		t.Run(name, func(t *testing.T) {
			h := open(t)
			var ids, stuck []mayfly.ID
			for n := range c.items {
				ids = append(ids, h.item())
				r := remind.Reminder{Due: now.Add(soon + time.Duration(n)*time.Millisecond), ID: ids[n], Step: remind.Erase}
				if slices.Contains(c.stuck, n) {
					stuck = append(stuck, ids[n])
				} else if c.others {
					r.Due = r.Due.Add(10*time.Minute + time.Duration(n)*time.Minute)
				}
				h.remind(r)
			}
			h.fail = func(_ remind.Step, b walk.Batch) ([]walk.Failure, error) {
				if slices.ContainsFunc(b.Items, func(item mayfly.Item) bool { return slices.Contains(stuck, item.ID) }) {
					return nil, mayfly.Errorf(mayfly.Unavailable, "this one is stuck")
				}
				return nil, nil
			}
			w := h.walker(remind.Options{Tries: 3, After: 2 * time.Minute, Longest: 10 * time.Minute})
			at := now.Add(soon + settle + time.Second)
			if _, err := w.Pass(t.Context(), at); !c.others && (err != nil || len(h.done[remind.Erase]) != c.items-len(stuck)) {
				t.Errorf("%d of %d are done in the first pass: %v", len(h.done[remind.Erase]), c.items-len(stuck), err)
			}
			for end := at.Add(3 * time.Hour); at < end; at = at.Add(time.Minute) {
				if _, err := w.Pass(t.Context(), at); err != nil && !(c.others && errors.Is(err, mayfly.Unavailable)) {
					t.Fatal(err)
				}
			}
			var parked []mayfly.ID
			for _, d := range h.dead() {
				parked = append(parked, d.ID)
			}
			slices.SortFunc(parked, func(a, b mayfly.ID) int { return slices.Index(ids, a) - slices.Index(ids, b) })
			if len(h.done[remind.Erase]) != c.items-len(stuck) || !slices.Equal(parked, stuck) {
				t.Errorf("%d of %d are done, dead letters %v, want %v", len(h.done[remind.Erase]), c.items-len(stuck), parked, stuck)
			}
		})
	}
}
