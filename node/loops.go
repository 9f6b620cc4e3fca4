package node

import (
	"context"
	"crypto/rand"
	"runtime"
	"time"

	"github.com/mayflyhq/mayfly/clock"
	"github.com/mayflyhq/mayfly/loop"
	"github.com/mayflyhq/mayfly/walk"
)

func (o Options) withDefaults() Options {
	if o.Name == "" {
		o.Name = "node"
	}
	if o.Source.Read == nil {
		o.Source = clock.System()
	}
	o.periods()
	if o.Walk.Holder == "" {
		o.Walk.Holder = o.Name + "-" + rand.Text()
	}
	if o.Walk.Slots == nil {
		// Half of the cores are left to the reads, whatever the backlog (L5).
		o.Walk.Slots = walk.NewSlots(min(runtime.NumCPU(), runtime.GOMAXPROCS(0)) / 2)
	}
	if o.Problem == nil {
		o.Problem = func(string, error) {}
	}
	return o
}

func (n *Node) startLoops() {
	ctx, stop := context.WithCancel(context.Background())
	n.stopping = stop
	start := func(name string, every time.Duration, do func(ctx context.Context) error) *loop.Loop {
		// A mark outlives two of its periods, and a walk may be a minute late: both come back soon.
		o := loop.Options{Name: name, Every: every, Jitter: 0.1, BackoffMax: min(every, 5*time.Second)}
		o.Failed = func(err error, _ int) { n.o.Problem(name, err) }
		l := loop.Start(ctx, o, do)
		n.loops = append(n.loops, l)
		return l
	}
	n.marking.Store(start("mark", n.o.Clock.SavePeriod, n.saveMark))
	for _, p := range n.passes {
		start(p.name, p.every, func(ctx context.Context) error { return n.passOn(ctx, p) })
	}
	start("accounts", n.o.AccountsEvery, func(ctx context.Context) error {
		if r := n.clock.Read(); r.Confirmed && n.set.Deletions != nil {
			_, err := n.engine.erase.Accounts(ctx, r.Steady)
			return err
		}
		return nil
	})
	start("trim", n.o.TrimEvery, func(ctx context.Context) error {
		if r := n.clock.Read(); r.Confirmed {
			return n.set.Log.Trim(ctx, r.Steady, n.o.LogKept)
		}
		return nil
	})
	n.startUpkeep(ctx)
	if n.o.Reclaim != nil {
		start("reclaim", n.o.ReclaimEvery, func(ctx context.Context) error {
			if r := n.clock.Read(); r.Confirmed {
				return n.o.Reclaim(ctx, r.Steady)
			}
			return nil
		})
	}
}

// passOn passes until there is nothing more to do at once, each pass by a fresh
// reading of the clock. While the clock is in doubt walks stand still (L7).
func (n *Node) passOn(ctx context.Context, p passer) error {
	for {
		r := n.clock.Read()
		if !r.Confirmed {
			return nil
		}
		more, err := p.Pass(ctx, r.Steady)
		if err != nil || !more {
			return err
		}
	}
}
