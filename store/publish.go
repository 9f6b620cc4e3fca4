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

// CacheAge is how long a cache may use a row or a relation, whatever its lease says,
// counted from before it started to read it, by a clock that goes on while the machine
// is suspended. It ends entries of whose change the cache was never notified.
const CacheAge = 3 * time.Second

// CacheWait is how long a caller waits before it answers, when it has changed a row
// and could not notify every cache. A cache that holds the old row started to read it
// before the change, so before this wait. At the end of the wait that entry is older
// than CacheAge on every node, even if the node's clock runs a tenth slow, which is the
// slowest allowed (L7), and is not used any more. This holds whichever nodes were
// notified, hold a lease, or are cut off (I7, I19).
const CacheWait = CacheAge*10/9 + CacheAge/10

// publishers is how many signals are published at once: on Redis each takes a round
// trip and the acknowledgements of all nodes.
const publishers = 32

// PublishAll publishes signals in parallel, and returns nil when each is handled as
// Publish promises. After a failure it starts no more: caches drop what they were not
// notified of within CacheAge. Errors: those of Publish, joined.
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

// Invalidate returns nil when no cache uses what the signals invalidate any more: each
// was notified, or its entries are too old (CacheWait, once for all signals). The
// changes must be durable before it is called. Errors: Unavailable (ctx ended first).
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
