package kvpebble

import (
	"bytes"
	"context"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// stripes are locks of keys, held from the read of an entry until its change is
// visible, which makes a group atomic. They are released before the fsync, so that many
// groups share one. They are taken in ascending order, so that there is no deadlock. A
// lock is a channel, so that waiting for it ends with the context or the fuse.
type stripes struct {
	seed   maphash.Seed
	locked [stripeCount]chan struct{}
	synced [stripeCount]atomic.Int32 // groups that are visible and not yet durable
}

const stripeCount = 1024

func (l *stripes) init() {
	l.seed = maphash.MakeSeed()
	for n := range l.locked {
		l.locked[n] = make(chan struct{}, 1)
	}
}

// hash returns the hash of a stored key. Its stripe is the remainder by stripeCount.
func (l *stripes) hash(key []byte) uint64 { return maphash.Bytes(l.seed, key) }

// allStripes returns every stripe.
func allStripes() []uint16 {
	all := make([]uint16, stripeCount)
	for n := range all {
		all[n] = uint16(n)
	}
	return all
}

// take sorts the stripes, removes duplicates and takes all or none.
func (l *stripes) take(ctx context.Context, fuse *store.Fuse, wanted []uint16) ([]uint16, error) {
	slices.Sort(wanted)
	wanted = slices.Compact(wanted)
	for i, n := range wanted {
		select {
		case l.locked[n] <- struct{}{}:
			continue
		default:
		}
		var err error
		select {
		case l.locked[n] <- struct{}{}:
			continue
		case <-fuse.Blown():
			err = fuse.Err()
		case <-ctx.Done():
			err = mayfly.Wrap(mayfly.Unavailable, ctx.Err(), "")
		}
		l.free(wanted[:i])
		return nil, err
	}
	// The last holder may have released the lock because the fuse has blown.
	if err := fuse.Err(); err != nil {
		l.free(wanted)
		return nil, err
	}
	return wanted, nil
}

func (l *stripes) free(held []uint16) {
	for _, n := range held {
		<-l.locked[n]
	}
}

// pending adds to the number of groups of the stripes that are not yet durable.
func (l *stripes) pending(held []uint16, d int32) {
	for _, n := range held {
		l.synced[n].Add(d)
	}
}

// durable reports whether everything that is visible in the stripes is durable.
func (l *stripes) durable(held []uint16) bool {
	return !slices.ContainsFunc(held, func(n uint16) bool { return l.synced[n].Load() != 0 })
}

// guard holds writers back from the span of keys that is being rewritten. Writers are
// counted from before they read until their change is visible; to take a span is to
// refuse it to new writers and to wait for those that have begun.
type guard struct {
	mu      sync.Mutex
	lo, hi  []byte        // the span that is taken; hi is nil if there is none
	freed   chan struct{} // closed when it is free again
	side    int           // where new writers are counted
	writers [2]int
	drained chan struct{} // closed when the writers of the other side have left
}

// enter waits until none of the keys is in the span that is taken. The writer leaves
// by the side that enter returns.
func (g *guard) enter(ctx context.Context, fuse *store.Fuse, keys [][]byte) (side int, err error) {
	for {
		g.mu.Lock()
		if g.hi == nil || !slices.ContainsFunc(keys, g.taken) {
			side = g.side
			g.writers[side]++
			g.mu.Unlock()
			return side, nil
		}
		freed := g.freed
		g.mu.Unlock()
		select {
		case <-freed:
		case <-fuse.Blown():
			return 0, fuse.Err()
		case <-ctx.Done():
			return 0, mayfly.Wrap(mayfly.Unavailable, ctx.Err(), "")
		}
	}
}

func (g *guard) taken(key []byte) bool {
	return bytes.Compare(g.lo, key) <= 0 && bytes.Compare(key, g.hi) < 0
}

func (g *guard) leave(side int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.writers[side]--
	if side != g.side && g.writers[side] == 0 && g.drained != nil {
		close(g.drained)
		g.drained = nil
	}
}

// take takes the span [lo, hi). Only one caller at a time has a span.
func (g *guard) take(fuse *store.Fuse, lo, hi []byte) error {
	g.mu.Lock()
	g.lo, g.hi, g.freed = lo, hi, make(chan struct{})
	old := g.side
	g.side = 1 - old
	drained := make(chan struct{})
	if g.writers[old] == 0 {
		close(drained)
	} else {
		g.drained = drained
	}
	g.mu.Unlock()
	select {
	case <-drained:
		return nil
	case <-fuse.Blown(): // the writers may never leave
		return fuse.Err()
	}
}

func (g *guard) free() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lo, g.hi = nil, nil
	close(g.freed)
}
