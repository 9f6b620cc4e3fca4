package remind_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/fixture"
)

// due are the reminders of the shard that are there, by when they are due.
func (h *env) due(from, to mayfly.Instant) (all []mayfly.Instant) {
	h.Helper()
	for minute := from.Minute(); minute <= to.Minute(); minute++ {
		rows, err := h.Set.Rows.Range(h.Context(), remind.Reminders, store.Range{Partition: remind.Partition(minute, shard), Limit: 1000})
		if err != nil {
			h.Fatal(err)
		}
		for _, row := range rows {
			r, err := remind.Read(row)
			if err != nil {
				h.Fatal(err)
			}
			all = append(all, r.Due)
		}
	}
	return all
}

// every writes a reminder for each step of time from now on.
func (h *env) every(step, span time.Duration) (dues []mayfly.Instant) {
	h.Helper()
	for at := soon; at < span; at += step {
		dues = append(dues, now.Add(at))
		h.remind(remind.Reminder{Due: now.Add(at), ID: h.item(), Step: remind.Expire})
	}
	return dues
}

const kept = 2 * time.Hour

func TestFinishedRemindersAreDroppedInWholeMinutesBehindTheWatermark(t *testing.T) {
	h := open(t)
	dues := h.every(7*time.Minute, 5*time.Hour)
	w := h.walker(remind.Options{Kept: kept})
	dropped := 0
	for at := now; at < now.Add(6*time.Hour); at = at.Add(time.Minute) {
		h.pass(w, at)
		left := h.due(now, now.Add(6*time.Hour))
		for _, due := range dues {
			watermark := at.Add(-settle)
			switch there := slices.Contains(left, due); {
			case !there && due > watermark.Add(-kept):
				t.Fatalf("at %s what was due at %s is gone", at, due)
			case there && due < watermark.Add(-kept-12*time.Minute): // in steps of ten, and the minute that is not whole
				t.Fatalf("at %s what was due at %s is still there", at, due)
			case !there:
				dropped++
			}
		}
	}
	if len(h.done[remind.Expire]) != len(dues) || dropped == 0 {
		t.Fatalf("%d of %d were done, %d looks found one gone", len(h.done[remind.Expire]), len(dues), dropped)
	}
}

// L13: though the walk stood still for longer than they are kept, what it has not
// done is there. A store that ended reminders by its clock would have taken it.
func TestNothingThatIsNotFinishedIsDropped(t *testing.T) {
	h := open(t)
	dues := h.every(time.Hour, 24*time.Hour)
	const outage = 20 * 24 * time.Hour
	h.remind(remind.Reminder{Due: dues[0], ID: h.item(), Step: remind.Expire}) // two of a page: it is not the items
	h.fail = func(remind.Step, walk.Batch) ([]walk.Failure, error) {
		return nil, mayfly.Errorf(mayfly.Unavailable, "away")
	}
	h.Hooks.Commit = fixture.FailCommit(mayfly.Unavailable) // nor can they be written again
	w := h.walker(remind.Options{Kept: kept})
	for at := now; at < now.Add(outage); at = at.Add(5 * time.Hour) {
		_, err := w.Pass(t.Context(), at)
		if at > now && !errors.Is(err, mayfly.Unavailable) {
			t.Fatal(err)
		}
	}
	if left := h.due(now, now.Add(24*time.Hour)); len(left) != len(dues)+1 {
		t.Fatalf("%d of %d are left", len(left), len(dues)+1)
	}
	h.Hooks.Commit, h.fail = nil, nil
	at := now.Add(outage)
	w = h.walker(remind.Options{Kept: kept}) // a process of its own: it goes on from the places
	passes := 0
	for more := true; more; passes++ {
		var err error
		before := h.Hooks.Count("range")
		if more, err = w.Pass(t.Context(), at); err != nil {
			t.Fatal(err)
		}
		if n := h.Hooks.Count("range") - before; n > 1_200 { // a thousand minutes walked, a hundred dropped
			t.Fatalf("a pass made %d reads", n)
		}
	}
	if len(h.done[remind.Expire]) != len(dues)+1 {
		t.Fatalf("%d of %d were done after the outage", len(h.done[remind.Expire]), len(dues)+1)
	}
	for range 20*24*60/100 + 20 { // a hundred minutes a pass
		if _, err := w.Pass(t.Context(), at); err != nil {
			t.Fatal(err)
		}
	}
	if left := h.due(now, now.Add(24*time.Hour)); len(left) > 0 {
		t.Fatalf("%d finished ones are left", len(left))
	}
	before := h.Hooks.Count("range")
	_, err := w.Pass(t.Context(), at)
	if n := h.Hooks.Count("range") - before; err != nil || n > 0 {
		t.Errorf("%d reads, %v: it looks again at what it has dropped", n, err)
	}
}

// A crash between any two writes drops what is gone already and leaves no gap.
func TestWhereverTheWriterStopsEverythingFinishedIsDroppedInTheEnd(t *testing.T) {
	stopped := 0
	for stop := range 40 {
		h := open(t)
		dues := h.every(5*time.Minute, 2*time.Hour)
		left := h.dieAfter(stop)
		w := h.walker(remind.Options{Kept: kept})
		for at := now; at < now.Add(8*time.Hour) && *left >= 0; at = at.Add(10 * time.Minute) {
			_, _ = w.Pass(t.Context(), at)
		}
		if *left < 0 {
			stopped++
		}
		h.Set = h.Real // the process starts again
		w = h.walker(remind.Options{Kept: kept})
		for at := now.Add(8 * time.Hour); at < now.Add(10*time.Hour); at = at.Add(10 * time.Minute) {
			h.pass(w, at)
		}
		if there := h.due(now, now.Add(3*time.Hour)); len(there) > 0 {
			t.Errorf("stopped at write %d: %v are left", stop, there)
		}
		if n := len(h.done[remind.Expire]); n < len(dues) {
			t.Errorf("stopped at write %d: %d of %d done", stop, n, len(dues))
		}
	}
	if stopped < 30 {
		t.Errorf("%d stops are too few to prove anything", stopped)
	}
}
