package walk

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/loop"
)

// act hands a page to the Act in batches. A batch that fails is tried again in
// halves, down to the one item that fails alone: that one is parked and the walk
// goes on. When parking fails too it is the store that is away, and the pass ends.
//
// Between two batches the pass may have done enough, and is cut; full says that
// more rows may follow the page.
func (w *Walker) act(ctx context.Context, page []mayfly.Item, full bool, l look) (cut bool, err error) {
	if len(page) > 0 {
		if err := w.begin(ctx, l.now); err != nil {
			return false, err
		}
	}
	tried := 0 // of the items ahead: a try that failed may have moved them
	for len(page) > 0 {
		n := min(w.batchSize, w.stride(w.o.Batch, page[0].ID.Deadline(), l), len(page))
		failures, took, err := w.try(ctx, Batch{Items: page[:n], Now: l.now, Run: w.run, Repeat: l.repeat || tried > 0})
		switch {
		case err == nil:
			w.batchSize = min(w.o.Batch, w.batchSize+w.batchSize/8+1)
		case ctx.Err() != nil:
			return false, ctx.Err()
		case l.first && IsAway(err):
			w.untold = err // the second look tells it, and the watermark waits for that
			w.again = max(w.again, page[n-1].ID.Deadline())
		case IsAway(err), IsDown(err):
			return false, err // smaller batches would be told no more, or fare no better
		case n > 1:
			w.batchSize, tried = n/2, max(tried, n)
			if w.spent.enough() { // it was slow to fail: go on by a fresh now, under a lease that is alive
				return false, err
			}
			continue
		case errors.Is(err, mayfly.Unavailable) && !errors.Is(err, context.DeadlineExceeded):
			return false, err // it is not the item: what the act needs is away, and the walk waits for it
		default:
			failures = []Failure{{Item: page[0], Err: err}}
		}
		if err := w.park(ctx, failures, l.now); err != nil {
			return false, err
		}
		last := page[n-1].ID.Deadline()
		w.pass(last-1, l) // the batch may end between two items of one millisecond
		page, tried = page[n:], max(0, tried-n)
		w.unsaved += n
		w.spent.items += n
		if l.first {
			w.report.did(n, len(failures))
		}
		if w.spent.lost = !w.shard.holds(w.tenure); w.spent.lost {
			return true, nil // after the batch under way, not after the pass
		}
		if err := w.rest(ctx, took, page, l); err != nil {
			return false, err
		}
		if w.spent.enough() && (full || len(page) > 0) && last-1 > l.from {
			return true, nil
		}
	}
	return false, nil
}

// try waits for a slot and acts. Both count as time spent.
func (w *Walker) try(ctx context.Context, b Batch) (failures []Failure, took time.Duration, err error) {
	var release func()
	w.spent.time += loop.Measure(func() { release, err = w.o.Slots.take(ctx) })
	if err != nil {
		return nil, 0, err
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, w.o.Timeout)
	defer cancel()
	took = loop.Measure(func() { failures, err = w.walk.Act(ctx, b) })
	w.spent.time += took
	return failures, took, err
}

// park leaves a durable reminder for every item that failed (L10), before the
// watermark passes it.
func (w *Walker) park(ctx context.Context, failures []Failure, now mayfly.Instant) error {
	if len(failures) == 0 {
		return nil
	}
	var b store.Batch
	for _, f := range failures {
		w.walk.Park(&b, f, now.Add(w.o.RemindAfter))
	}
	ctx, cancel := context.WithTimeout(ctx, w.o.Timeout)
	defer cancel()
	if err := w.set.Writer.Commit(ctx, &b); err != nil {
		return fmt.Errorf("park %d items (first: %s): %w", len(failures), failures[0].Err, err)
	}
	return nil
}

// rest is the pause after a batch: reads should not feel a walk (L4).
func (w *Walker) rest(ctx context.Context, took time.Duration, left []mayfly.Item, l look) error {
	if w.o.Unpaced {
		return ctx.Err()
	}
	oldest := w.cursor
	if len(left) > 0 {
		oldest = left[0].ID.Deadline()
	}
	p := pause(took, w.late(oldest, l), w.o.Load/mayfly.Shards)
	w.spent.time += p
	return loop.Rest(ctx, p)
}

// stride is how many items are read or acted on at once, when the oldest of them
// is oldest: few while the walk is on time, so that no read waits behind a long
// one; the more, up to most, the later it is.
func (w *Walker) stride(most int, oldest mayfly.Instant, l look) int {
	if w.o.Unpaced {
		return most
	}
	few := min(most, w.o.Gentle)
	return few + int(float64(most-few)*w.late(oldest, l))
}

// late is how much of the walk's budget is used up when its oldest item is
// oldest: 0 is on time, 1 all of it.
func (w *Walker) late(oldest mayfly.Instant, l look) float64 {
	return min(1, max(0, float64(l.onTime.Sub(oldest))/float64(w.o.Budget)))
}

// pause is how long to rest after a batch that took took. On time a walk uses no
// more than the share idle of a core; the later it is, the less it rests; with
// its budget used up it does not rest.
func pause(took time.Duration, late, idle float64) time.Duration {
	share := idle + (1-idle)*late
	return min(time.Second, time.Duration(float64(took)*(1/share-1)))
}

// Slots bounds how many acts run at once in a process, over all walks and
// shards, so that a backlog leaves cores to the reads. A nil Slots has no bound.
type Slots struct{ free chan struct{} }

// NewSlots is n slots.
func NewSlots(n int) *Slots { return &Slots{free: make(chan struct{}, max(1, n))} }

func (s *Slots) take(ctx context.Context) (release func(), err error) {
	if s == nil {
		return func() {}, nil
	}
	select {
	case s.free <- struct{}{}:
		return func() { <-s.free }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
