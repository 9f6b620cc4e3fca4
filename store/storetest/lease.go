package storetest

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

func leaseCases() []testCase {
	return []testCase{
		{"a free lease is taken and another holder is refused", leaseTaken},
		{"a lease is renewed by its holder", leaseRenewed},
		{"a lease that has run out is taken over", leaseRunsOut},
		{"a holder whose lease was taken over is told", leaseLost},
		{"a released lease is free at once", leaseReleased},
		{"a release frees nobody else's lease", releaseComparesToken},
		{"shards have leases of their own", leasePerShard},
		{"a lease is written only when a third of its time is gone", leaseWritesSeldom},
		{"of sixteen that race for a lease one holds it", leaseRace},
	}
}

const lasts = 3 * time.Second

// scoped gives a case lease rows of its own: their keys are fixed by the shard.
type scoped struct {
	store.Rows
	scope  string
	writes atomic.Int64
	read   func() // after every Get
}

func (c *trial) scoped() *scoped { return &scoped{Rows: c.set.Rows, scope: freshName("lease")} }

func (s *scoped) own(key store.Key) store.Key {
	return store.Key{Partition: s.scope + key.Partition, Clustering: key.Clustering}
}

func (s *scoped) Get(ctx context.Context, t store.Table, keys ...store.Key) ([][]byte, error) {
	own := make([]store.Key, len(keys))
	for i, key := range keys {
		own[i] = s.own(key)
	}
	values, err := s.Rows.Get(ctx, t, own...)
	if s.read != nil {
		s.read()
	}
	return values, err
}

func (s *scoped) Swap(ctx context.Context, t store.Table, key store.Key, old, next []byte, reclaimAt mayfly.Instant) (bool, []byte, error) {
	s.writes.Add(1)
	return s.Rows.Swap(ctx, t, s.own(key), old, next, reclaimAt)
}

func (c *trial) wantHold(l *walk.Lease, now mayfly.Instant, want bool) {
	c.Helper()
	held, err := l.Hold(c.ctx, now)
	c.must(err)
	if held != want {
		c.Errorf("held at %d: %t, want %t", now, held, want)
	}
}

// noon is any instant: leases are told the time.
const noon = mayfly.Instant(1_780_000_000_000)

func leaseTaken(c *trial) {
	rows := c.scoped()
	a, b := walk.NewLease(rows, 3, "a", lasts), walk.NewLease(rows, 3, "b", lasts)
	c.wantHold(a, noon, true)
	c.wantHold(b, noon, false)
	c.wantHold(b, noon.Add(lasts)-1, false)
	c.wantHold(a, noon, true)
}

func leaseRenewed(c *trial) {
	rows := c.scoped()
	a, b := walk.NewLease(rows, 3, "a", lasts), walk.NewLease(rows, 3, "b", lasts)
	for i := range 10 {
		now := noon.Add(time.Duration(i) * lasts * 2 / 3)
		c.wantHold(a, now, true)
		c.wantHold(b, now, false)
	}
	again := walk.NewLease(rows, 3, "a", lasts) // the same holder, after it lost its memory of the row
	c.wantHold(again, noon.Add(6*lasts), true)
}

func leaseRunsOut(c *trial) {
	rows := c.scoped()
	a, b := walk.NewLease(rows, 3, "a", lasts), walk.NewLease(rows, 3, "b", lasts)
	c.wantHold(a, noon, true)
	c.wantHold(b, noon.Add(lasts), true)
}

func leaseLost(c *trial) {
	rows := c.scoped()
	a, b := walk.NewLease(rows, 3, "a", lasts), walk.NewLease(rows, 3, "b", lasts)
	c.wantHold(a, noon, true)
	late := noon.Add(lasts)
	c.wantHold(b, late, true)
	c.wantHold(a, late, false)
	c.wantHold(a, late, false)
	c.wantHold(b, late, true)
	c.wantHold(a, late.Add(lasts), true)
}

func leaseReleased(c *trial) {
	rows := c.scoped()
	a, b := walk.NewLease(rows, 3, "a", lasts), walk.NewLease(rows, 3, "b", lasts)
	c.wantHold(a, noon, true)
	c.must(a.Release(c.ctx))
	c.must(a.Release(c.ctx))
	c.wantHold(b, noon, true)
	c.wantHold(a, noon, false)
}

func releaseComparesToken(c *trial) {
	rows := c.scoped()
	a, b, third := walk.NewLease(rows, 3, "a", lasts), walk.NewLease(rows, 3, "b", lasts), walk.NewLease(rows, 3, "c", lasts)
	c.wantHold(a, noon, true)
	c.wantHold(b, noon.Add(lasts), true)
	c.must(a.Release(c.ctx)) // a does not know that it has lost it
	c.wantHold(third, noon.Add(lasts), false)
	c.wantHold(b, noon.Add(lasts), true)
	c.must(walk.NewLease(rows, 3, "d", lasts).Release(c.ctx)) // never held
	c.wantHold(third, noon.Add(lasts), false)
}

func leasePerShard(c *trial) {
	rows := c.scoped()
	for shard := range mayfly.Shard(mayfly.Shards) {
		c.wantHold(walk.NewLease(rows, shard, fmt.Sprint("holder ", shard), lasts), noon, true)
	}
	for shard := range mayfly.Shard(mayfly.Shards) {
		c.wantHold(walk.NewLease(rows, shard, "another", lasts), noon, false)
	}
}

func leaseWritesSeldom(c *trial) {
	rows := c.scoped()
	a := walk.NewLease(rows, 3, "a", lasts)
	for i := range 30 {
		c.wantHold(a, noon.Add(time.Duration(i)*100*time.Millisecond), true)
	}
	if n := rows.writes.Load(); n < 2 || n > 4 {
		c.Errorf("%d writes in one time of the lease, want 3", n)
	}
}

func leaseRace(c *trial) {
	rows := c.scoped()
	for round := range 3 {
		var holders atomic.Int64
		now := noon.Add(time.Duration(round) * lasts)
		rows.read = c.meeting(16) // all have seen it free before one takes it
		together(16, func(i int) {
			held, err := walk.NewLease(rows, 3, fmt.Sprintf("holder %d of round %d", i, round), lasts).Hold(c.ctx, now)
			if err != nil {
				c.Errorf("hold: %v", err)
			}
			if held {
				holders.Add(1)
			}
		})
		if n := holders.Load(); n != 1 {
			c.Errorf("round %d: %d hold the lease", round, n)
		}
	}
}
