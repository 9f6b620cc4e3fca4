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
// halves, down to one entry that fails alone: that one is parked and the walk goes
// on. When parking fails too the store is unavailable, and the pass ends. One that
// fails as Unavailable is parked only if others are not: see othersAnswer.
//
// cut says that the pass has done enough and ended between two batches; full says
// that more entries may follow the page.
func (w *Walker) act(ctx context.Context, p page, full bool, l look) (cut bool, err error) {
	if len(p.items) > 0 {
		if err := w.begin(ctx, l.now); err != nil {
			return false, err
		}
	}
	tried := 0 // how many of the next entries a failed try may have moved
	for p.len() > 0 {
		n := min(w.batchSize, w.stride(w.o.Batch, p.due(0), l), p.len())
		batch := p.slice(0, n)
		failures, took, err := w.try(ctx, Batch{Items: batch.items, Rows: batch.rows, Now: l.now, Run: w.run, Repeat: l.repeat || tried > 0})
		switch {
		case err == nil:
			w.batchSize = min(w.o.Batch, w.batchSize+w.batchSize/8+1)
		case ctx.Err() != nil:
			return false, ctx.Err()
		case l.first && IsAway(err):
			w.logErr = err // the second look appends the events, and the watermark waits for it
			w.again = max(w.again, p.due(n-1))
		case IsAway(err), IsDown(err):
			return false, err // a smaller batch would fail too
		case n > 1:
			w.batchSize, tried = n/2, max(tried, n)
			if w.spent.enough() { // it was slow to fail: go on with a fresh now and a fresh lease
				return false, err
			}
			continue
		case errors.Is(err, mayfly.Unavailable) && !errors.Is(err, context.DeadlineExceeded) && !w.othersAnswer(ctx, p, l):
			return false, err // not because of the item: the walk waits for what the act needs
		default:
			failures = batch.failed(err)
		}
		if err := w.park(ctx, failures, l.now); err != nil {
			return false, err
		}
		last := p.due(n - 1)
		w.pass(last-1, l) // the batch may end between two items of one millisecond
		p, tried = p.slice(n, p.len()), max(0, tried-n)
		w.unsaved += n
		w.spent.items += n
		if l.first {
			w.report.did(n, len(failures))
		}
		if w.spent.lost = !w.shard.holds(w.tenure); w.spent.lost {
			return true, nil // after a batch, not only after the pass
		}
		if err := w.rest(ctx, took, p, l); err != nil {
			return false, err
		}
		if w.spent.enough() && (full || p.len() > 0) && last-1 > l.from {
			return true, nil
		}
	}
	return false, nil
}

// try waits for a slot and calls the Act. Both count as time of the pass.
func (w *Walker) try(ctx context.Context, b Batch) (failures []Failure, took time.Duration, err error) {
	var release func()
	w.spent.time += loop.Measure(func() { release, err = w.o.Slots.take(ctx) })
	if err != nil {
		return nil, 0, err
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, max(w.o.Timeout, w.walk.Limit))
	defer cancel()
	took = loop.Measure(func() { failures, err = w.walk.Act(ctx, b) })
	w.spent.time += took
	return failures, took, err
}

// park writes a durable reminder for each failure before the watermark passes it (L10).
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
		return fmt.Errorf("park %d items (the first because of: %s): %w", len(failures), failures[0].Err, err)
	}
	return nil
}

// rest pauses after a batch, so that a walk does not slow down reads (L4).
func (w *Walker) rest(ctx context.Context, took time.Duration, left page, l look) error {
	if w.o.Unpaced {
		return ctx.Err()
	}
	oldest := w.cursor
	if left.len() > 0 {
		oldest = left.due(0)
	}
	d := pause(took, w.late(oldest, l), w.o.Load/mayfly.Shards)
	w.spent.time += d
	return loop.Rest(ctx, d)
}

// stride returns how many entries are read or acted on at once when the oldest of
// them is due at oldest: few while the walk is on time, so that no read waits for a
// long batch, and up to most the later it is.
func (w *Walker) stride(most int, oldest mayfly.Instant, l look) int {
	if w.o.Unpaced {
		return most
	}
	few := min(most, w.o.Gentle)
	return few + int(float64(most-few)*w.late(oldest, l))
}

// late returns how much of the lateness budget is used up when the oldest entry is
// due at oldest: 0 is on time, 1 is all of it.
func (w *Walker) late(oldest mayfly.Instant, l look) float64 {
	return min(1, max(0, float64(l.onTime.Sub(oldest))/float64(w.o.Budget)))
}

// pause returns how long to rest after a batch that lasted took. A walk on time uses
// at most the share idle of a core; the later it is the less it rests, and not at
// all when its budget is used up.
func pause(took time.Duration, late, idle float64) time.Duration {
	share := idle + (1-idle)*late
	return min(time.Second, time.Duration(float64(took)*(1/share-1)))
}

// Slots bounds how many acts run at once in a process, over all walks and shards,
// so that a backlog leaves cores to the reads. A nil Slots is no bound.
type Slots struct{ free chan struct{} }

// NewSlots returns n slots, at least one.
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

// Away marks the error of an act that has made its changes and could not append
// their events, because the log is unavailable. No step depends on the log (L8):
// the first look goes on, the second appends the events and waits for the log, and
// nothing is parked (L10). A time-out while waiting for the log is not the item's
// fault. An error of kind Invalid is, and is returned as it is.
func Away(err error) error {
	if err == nil || errors.Is(err, mayfly.Invalid) {
		return err
	}
	return mayfly.Wrap(mayfly.Unavailable, elsewhere{err}, "")
}

// IsAway reports whether err was marked by Away.
func IsAway(err error) bool {
	var e elsewhere
	return errors.As(err, &e)
}

// Down marks the error of an act that could not make its changes because a store
// does not answer: every item would fail alike. The walk waits, nothing is parked
// and no try is counted (L10), however long the act has waited.
func Down(err error) error {
	if err == nil {
		return nil
	}
	return mayfly.Wrap(mayfly.Unavailable, silent{elsewhere{err}}, "")
}

// IsDown reports whether err was marked by Down.
func IsDown(err error) bool {
	var e silent
	return errors.As(err, &e)
}

// silent is an error of a store that does not answer.
type silent struct{ elsewhere }

// elsewhere is an error of something that an act waited for. Its time-out is not
// the act's.
type elsewhere struct{ err error }

func (e elsewhere) Error() string { return e.err.Error() }

// Is matches what the error is, except for the time-out.
func (e elsewhere) Is(target error) bool {
	return target != context.DeadlineExceeded && errors.Is(e.err, target)
}
