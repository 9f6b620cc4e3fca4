package storetest

import (
	"context"
	"fmt"
	"slices"
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
		{"an expired lease can be taken over", leaseRunsOut},
		{"a holder whose lease was taken over no longer holds it", leaseLost},
		{"a released lease is free at once", leaseReleased},
		{"a release frees only the holder's own lease", releaseComparesToken},
		{"each shard has its own lease", leasePerShard},
		{"a lease is written only after a third of its time", leaseWritesSeldom},
		{"of sixteen racing holders exactly one gets the lease", leaseRace},
		{"the roll names the walkers whose places have not expired, in order", rollNames},
		{"a place that was given up leaves the roll at once", rollLeft},
		{"the leases of all shards are read together", leasesTogether},
		{"a lease is taken from a holder that is gone and from no other", leaseTakenOver},
	}
}

const lasts = 3 * time.Second

// scoped gives a case its own lease rows, because the shard alone decides their keys.
type scoped struct {
	store.Rows
	scope  string
	writes atomic.Int64
	read   func() // called after every Get
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

// noon is any instant: leases take the time as an argument.
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
	again := walk.NewLease(rows, 3, "a", lasts) // the same holder, after a restart
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
	c.must(a.Release(c.ctx)) // a does not know that it lost the lease
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
		c.Errorf("%d writes while the lease lasts, want 3", n)
	}
}

func leaseRace(c *trial) {
	rows := c.scoped()
	for round := range 3 {
		var holders atomic.Int64
		now := noon.Add(time.Duration(round) * lasts)
		rows.read = c.barrier(16) // all have read that it is free before one takes it
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
			c.Errorf("round %d: %d holders have the lease", round, n)
		}
	}
}

// Range gives a case its own roll.
func (s *scoped) Range(ctx context.Context, t store.Table, r store.Range) ([]store.Row, error) {
	r.Partition = s.scope + r.Partition
	return s.Rows.Range(ctx, t, r)
}

// Ranges implements store.Rows.
func (s *scoped) Ranges(ctx context.Context, t store.Table, all ...store.Range) ([][]store.Row, error) {
	return store.EachRange(ctx, s.Range, t, all)
}

func (c *trial) wantRoll(rows store.Rows, after int, want ...string) {
	c.Helper()
	walkers, err := walk.Members(c.ctx, rows, noon.Add(lasts)+mayfly.Instant(after))
	c.must(err)
	var got []string
	for _, w := range walkers {
		got = append(got, w.Name+" "+w.Holder)
	}
	if !slices.Equal(got, want) {
		c.Errorf("the roll is %q, want %q", got, want)
	}
}

func rollNames(c *trial) {
	rows := c.scoped()
	c.wantRoll(rows, 0)
	c.wantHold(walk.NewPlace(rows, "b", "2", lasts), noon+10, true)
	c.wantHold(walk.NewPlace(rows, "c", "3", lasts), noon, true)
	c.wantHold(walk.NewPlace(rows, "a", "1", lasts), noon+20, true)
	c.wantHold(walk.NewPlace(rows, "a", "another", lasts), noon+20, false)
	c.wantRoll(rows, -1, "a 1", "b 2", "c 3")
	c.wantRoll(rows, 0, "a 1", "b 2")
	c.wantRoll(rows, 15, "a 1")
	c.wantRoll(rows, 20)
}

func rollLeft(c *trial) {
	rows := c.scoped()
	a, b := walk.NewPlace(rows, "a", "1", lasts), walk.NewPlace(rows, "b", "2", lasts)
	c.wantHold(a, noon, true)
	c.wantHold(b, noon, true)
	c.must(a.Release(c.ctx))
	c.wantRoll(rows, -1, "b 2")
	c.wantHold(walk.NewPlace(rows, "a", "3", lasts), noon, true)
	c.wantRoll(rows, -1, "a 3", "b 2")
}

func leasesTogether(c *trial) {
	rows := c.scoped()
	for _, shard := range []byte{0, 3, 15} {
		c.wantHold(walk.NewLease(rows, mayfly.Shard(shard), fmt.Sprint("holder ", shard), lasts), noon, true)
	}
	all, err := walk.ShardLeases(c.ctx, rows)
	c.must(err)
	for i, row := range all {
		holder, until, err := walk.HolderOf(row)
		c.must(err)
		if want := i == 0 || i == 3 || i == 15; want != (holder == fmt.Sprint("holder ", i) && until == noon.Add(lasts)) || !want && row != nil {
			c.Errorf("shard %d: %q until %d", i, holder, until)
		}
	}
}

func leaseTakenOver(c *trial) {
	rows := c.scoped()
	a, b := walk.NewLease(rows, 3, "a", lasts), walk.NewLease(rows, 3, "b", lasts)
	c.wantHold(a, noon, true)
	over := func(l *walk.Lease, gone string) bool {
		all, err := walk.ShardLeases(c.ctx, rows)
		c.must(err)
		held, err := l.HoldOver(c.ctx, noon, all[3], func(holder string) bool { return holder == gone })
		c.must(err)
		return held
	}
	if over(b, "other") {
		c.Error("the lease was taken from a holder that is not gone")
	}
	if !over(a, "other") || !over(b, "a") {
		c.Error("the holder lost the lease, or it was not taken from a holder that is gone")
	}
	if over(a, "other") {
		c.Error("the old holder took the lease back")
	}
	c.must(a.Release(c.ctx)) // it is not the holder any more
	if !over(b, "other") {
		c.Error("a release freed the lease of another holder (trap 4)")
	}
}
