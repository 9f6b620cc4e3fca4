//go:build servers

package cluster

import (
	"context"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// kill ends a node with -9: its shards are taken over when its place has run out.
func (c *change) kill() {
	c.Helper()
	for round := range pick(1, 5) {
		p := []*process{c.a, c.b}[round%2]
		x := c.away(p, "killed with -9", lease+takeOver)
		p.kill()
		c.await(x)
		time.Sleep(time.Until(x.at.Add(3 * lease)))
		c.load.goOn(30, 50, time.Minute)
		p.begin()
		p.awaitReady(time.Minute)
		c.together()
	}
}

// takeOver is how long the others may take when a place is gone from the roll: one
// look at it that fails after a lease, the next that takes, and what lies between.
const takeOver = 3 * lease

// absence is a node that does not work, and the shards that it held.
type absence struct {
	what   string
	at     time.Time
	holder string // the process, on the roll
	held   map[mayfly.Shard]bool
	most   time.Duration      // until others hold its shards
	taken  chan time.Duration // when they do
	took   time.Duration
}

// away writes down that a node is about to stop working, and looks from then on who
// holds what was its.
func (c *change) away(p *process, what string, most time.Duration) *absence {
	c.Helper()
	x := c.absent(p, what, most)
	c.follow(x)
	return x
}

// follow begins to look.
func (c *change) follow(x *absence) {
	c.absence = append(c.absence, x)
	go x.look(c.Context(), c.store.Set.Rows)
}

// absent is a node from now on, and the shards that it holds.
func (c *change) absent(p *process, what string, most time.Duration) *absence {
	c.Helper()
	x := &absence{what: what, held: map[mayfly.Shard]bool{}, most: most, taken: make(chan time.Duration, 1)}
	eventually(c, 30*time.Second, p.name+" is on the roll and holds shards", func() bool {
		walkers, all := c.leases(time.Now())
		x.holder = walkers[p.name]
		for shard, holder := range all {
			if x.holder != "" && holder == x.holder {
				x.held[mayfly.Shard(shard)] = true
			}
		}
		return len(x.held) > 0
	})
	x.at = time.Now()
	return x
}

// look looks at the leases until others hold every shard, or for longer than that
// may take.
func (x *absence) look(ctx context.Context, rows store.Rows) {
	for ctx.Err() == nil && time.Since(x.at) < x.most+time.Minute {
		within, cancel := context.WithTimeout(ctx, time.Second)
		all, err := holders(within, rows)
		cancel()
		left := 0
		for shard := range x.held {
			if all[shard] == "" || all[shard] == x.holder {
				left++
			}
		}
		if err == nil && left == 0 {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	x.taken <- time.Since(x.at)
}

// await waits until others hold every shard that a node held, and wants them to
// within what that may take.
func (c *change) await(x *absence) {
	c.Helper()
	if x.took = <-x.taken; x.took > x.most {
		c.Errorf("%s: its shards were taken over after %s, which may take %s", x.what, x.took, x.most)
	}
}

// leases are the processes that walk at an instant, by name, and who holds each shard.
func (c *change) leases(at time.Time) (walkers map[string]string, all [mayfly.Shards]string) {
	c.Helper()
	eventually(c, 30*time.Second, "the leases can be read", func() bool {
		ctx, cancel := context.WithTimeout(c.Context(), 10*time.Second)
		defer cancel()
		roll, err := walk.Members(ctx, c.store.Set.Rows, mayfly.InstantOf(at))
		if err == nil {
			all, err = holders(ctx, c.store.Set.Rows)
		}
		walkers = map[string]string{}
		for _, w := range roll {
			walkers[w.Name] = w.Holder
		}
		return err == nil
	})
	return walkers, all
}

// holders are the processes that hold each shard, by the leases; "" if it was given up.
func holders(ctx context.Context, rows store.Rows) (all [mayfly.Shards]string, err error) {
	leases, err := walk.ShardLeases(ctx, rows)
	if err != nil {
		return all, err
	}
	for shard, row := range leases {
		if all[shard], _, err = walk.HolderOf(row); err != nil {
			return all, err
		}
	}
	return all, nil
}
