package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mayflyhq/mayfly"
)

// CacheAge is how long a cache may answer from what it knows of a row or a
// relation, counted from before it began to read it, by elapsed time that goes
// on while the machine is suspended. Whatever its lease says: signals hurry a
// cache, and its own clock ends what it was never notified of.
const CacheAge = 3 * time.Second

// CacheWait is how long a caller that has changed a row, and could not notify every
// cache, waits before the answer. Whatever any cache holds of the row as it was,
// it began to read before the change, and so before this wait: at its end that is
// older than CacheAge on every node, though its clock runs a tenth slow, which is
// the slowest there is (L7), and no read is answered from it. That needs nothing of
// who heard what, who holds a lease, or who is on which side of a cut (I7, I19).
const CacheWait = CacheAge*10/9 + CacheAge/10

// publishers is how many signals are under way at once: on Redis each is a round
// trip with every node's acknowledgement.
const publishers = 32

// PublishAll publishes signals side by side, and returns nil when each is
// handled as Publish promises. It begins no other behind one that failed: what
// caches were not notified of they forget by themselves within CacheAge. Errors: those
// of Publish, joined.
func PublishAll(ctx context.Context, to Signals, signals ...Signal) error {
	if len(signals) == 1 {
		return to.Publish(ctx, signals[0])
	}
	var next atomic.Int64
	var failed atomic.Bool
	errs := make([]error, min(publishers, len(signals)))
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() {
			for !failed.Load() {
				n := int(next.Add(1)) - 1
				if n >= len(signals) {
					return
				}
				if errs[i] = to.Publish(ctx, signals[n]); errs[i] != nil {
					failed.Store(true)
				}
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// Invalidate returns nil when no cache anywhere answers from what the signals
// invalidate: each was notified, or is too old (CacheWait), with one wait for all of
// them. The changes that they tell of are durable before it is called. Errors:
// Unavailable (ctx ended before).
func Invalidate(ctx context.Context, to Signals, signals ...Signal) error {
	failed := PublishAll(ctx, to, signals...)
	if failed == nil {
		return nil
	}
	timer := time.NewTimer(CacheWait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return mayfly.Wrap(mayfly.Unavailable, fmt.Errorf("it is done, and a cache may not know it yet: %w", errors.Join(ctx.Err(), failed)),
			"ask again: doing it twice is doing it once")
	}
}
