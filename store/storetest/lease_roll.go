package storetest

import (
	"context"
	"fmt"
	"slices"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// rollCases are those of the leases that nodes share their work out by.
func rollCases() []testCase {
	return []testCase{
		{"the roll names the walkers whose places have not run out, in order", rollNames},
		{"a place that was given up is off the roll at once", rollLeft},
		{"the leases of all shards are read together", leasesTogether},
		{"a lease is taken from a holder that is gone and from no other", leaseTakenOver},
	}
}

// Range makes the roll of a case its own.
func (s *scoped) Range(ctx context.Context, t store.Table, r store.Range) ([]store.Row, error) {
	r.Partition = s.scope + r.Partition
	return s.Rows.Range(ctx, t, r)
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
	if over(b, "somebody") {
		c.Error("taken from a holder that is there")
	}
	if !over(a, "somebody") || !over(b, "a") {
		c.Error("kept by nobody, or not taken from a holder that is gone")
	}
	if over(a, "somebody") {
		c.Error("who lost it took it back")
	}
	c.must(a.Release(c.ctx)) // not its own any more
	if !over(b, "somebody") {
		c.Error("a release freed somebody else's lease (trap 4)")
	}
}
