//go:build servers

package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store/storetest"
)

// notice is how long a node that is stopping announces it and goes on.
const notice = 2 * time.Second

// roll stops and starts the nodes one after the other, as an operator does for a
// new version: no node waits for a lease to run out. A client that goes by /readyz
// alone, as a load balancer does, and sends nothing twice has every answer.
func (c *change) roll() {
	c.Helper()
	var longestStop, longestStart time.Duration
	rounds := pick(2, 20)
	ctx, over := context.WithCancel(context.Background())
	balanced := make(chan balance)
	go func() { balanced <- c.balanced(ctx) }()
	for round := range rounds {
		p := []*process{c.a, c.b}[round%2]
		x := c.away(p, "stopped", notice+takeOver)
		longestStop = max(longestStop, p.stop())
		c.gaveUp(x)
		c.await(x)
		c.load.goOn(30, 50, time.Minute)
		time.Sleep(lease)
		p.begin()
		longestStart = max(longestStart, p.awaitReady(time.Minute))
		c.together()
	}
	over()
	b := <-balanced
	storetest.Proof(c, "rolling restart", "stops and starts, the longest of each", fmt.Sprintf("%d, %s, %s",
		rounds, longestStop.Round(time.Millisecond), longestStart.Round(time.Millisecond)))
	storetest.Proof(c, "rolling restart", "reads by /readyz alone, those that failed", fmt.Sprintf("%d, %d", b.reads, len(b.failed)))
	if b.reads < 100*rounds || len(b.failed) > 0 {
		c.Errorf("%d reads went by /readyz, and failed: %v", b.reads, b.failed)
	}
}

// gaveUp wants a node that has ended well to have left every shard, and the roll as
// of when it was stopped: a place that has only run out since is not given up.
func (c *change) gaveUp(x *absence) {
	c.Helper()
	walkers, all := c.leases(x.at)
	for shard, holder := range all {
		if holder == x.holder {
			c.Errorf("%s has ended, and holds shard %d", holder, shard)
		}
	}
	for _, holder := range walkers {
		if holder == x.holder {
			c.Errorf("%s has ended, and has its place on the roll", holder)
		}
	}
}

// balance counts what a client met that goes by /readyz.
type balance struct {
	reads  int
	failed []error
}

// balanced reads through whichever node has said last that it is ready. Each is
// looked at by itself: one that is slow to say so holds up no look at the other.
func (c *change) balanced(ctx context.Context) (b balance) {
	nodes := []*process{c.a, c.b}
	people := []*person{c.person(c.a, "balanced"), c.person(c.b, "balanced")}
	ready := make([]atomic.Bool, len(nodes))
	var looks sync.WaitGroup
	for i, p := range nodes {
		ready[i].Store(p.balances(false))
		looks.Go(func() {
			for ; ctx.Err() == nil; time.Sleep(200 * time.Millisecond) {
				ready[i].Store(p.balances(ready[i].Load()))
			}
		})
	}
	defer looks.Wait()
	for ; ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
		n := c.record.some(100, rand.IntN)
		if n == nil {
			continue
		}
		b.reads++
		i := rand.IntN(len(nodes))
		if !ready[i].Load() {
			i = len(nodes) - 1 - i
		}
		if !ready[i].Load() {
			b.failed = append(b.failed, mayfly.Errorf(mayfly.Unavailable, "no node is ready"))
			continue
		}
		if _, err := people[i].Story(context.Background(), n.id); errors.Is(err, mayfly.Unavailable) || errors.Is(err, mayfly.Unknown) {
			b.failed = append(b.failed, fmt.Errorf("%s: %w", nodes[i].name, err))
		}
	}
	return b
}
