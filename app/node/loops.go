package node

import (
	"context"
	"crypto/rand"
	"runtime"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/clock"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/loop"
)

func (o Options) withDefaults(set store.Set) Options {
	if o.Name == "" {
		o.Name = "node"
	}
	if o.Source.Read == nil {
		o.Source = clock.System()
	}
	o.periods()
	if set.Time == nil {
		o.Clock.Skew = 0 // alone with its store
	}
	if o.Walk.Holder == "" {
		o.Walk.Holder = o.Name + "-" + rand.Text()
	}
	if o.Walk.Slots == nil {
		// Half of the cores are left to the reads, whatever the backlog (L5).
		o.Walk.Slots = walk.NewSlots(min(runtime.NumCPU(), runtime.GOMAXPROCS(0)) / 2)
		if set.Time != nil { // acts wait for servers, not for cores: every shard may act
			o.Walk.Slots = walk.NewSlots(mayfly.Shards)
		}
	}
	if o.Problem == nil {
		o.Problem = func(string, error) {}
	}
	return o
}

// startLoop starts a loop that comes back soon after it failed: a mark outlives two
// of its periods, and a walk may be a minute late.
func (n *Node) startLoop(name string, every time.Duration, do func(ctx context.Context) error) *loop.Loop {
	return n.startWith(loop.Options{Name: name, Every: every, Jitter: 0.1, BackoffMax: min(every, 5*time.Second)}, do)
}

func (n *Node) startWith(o loop.Options, do func(ctx context.Context) error) *loop.Loop {
	o.Failed = func(err error, _ int) { n.o.Problem(o.Name, err) }
	l := loop.Start(n.running, o, do)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.loops = append(n.loops, l)
	return l
}

// rollEvery is how often a walker looks at the roll at most: it renews nothing
// before a third of a lease is gone.
const rollEvery = 5 * time.Second

// startWork starts the walks and the upkeep of a node that walks.
func (n *Node) startWork() {
	w := n.worked()
	if w.roll == nil {
		return
	}
	if err := n.renew(n.running); err != nil { // so that what starts now holds its shards
		n.o.Problem("roll", err)
	}
	n.rolling.Store(n.startLoop("roll", min(n.o.Walk.Lease/3, rollEvery), n.renew))
	for _, p := range w.passes {
		n.startLoop(p.name, p.every, func(ctx context.Context) error { return n.passOn(ctx, p) })
	}
	upkeep := func(name string, every time.Duration, do func(context.Context, mayfly.Instant) error) {
		n.startLoop(name, every, n.whenMine(do))
	}
	if n.set.Deletions != nil {
		upkeep("accounts", n.o.AccountsEvery, func(ctx context.Context, now mayfly.Instant) error {
			_, err := n.engine.accounts.RunDue(ctx, now)
			return err
		})
	}
	upkeep("trim", n.o.TrimEvery, func(ctx context.Context, now mayfly.Instant) error {
		return n.set.Log.Trim(ctx, now, n.o.LogKept)
	})
	if n.o.Reclaim != nil {
		upkeep("reclaim", n.o.ReclaimEvery, n.o.Reclaim)
	}
	n.startUpkeep()
}

// whenMine does what is done once for all shards, if that is this node's.
func (n *Node) whenMine(do func(context.Context, mayfly.Instant) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if now, may := n.mayUpkeep(); may {
			return do(ctx, now)
		}
		return nil
	}
}

// renew keeps the node's place on the roll and its shards. By a clock in doubt it
// does neither: others take over.
func (n *Node) renew(ctx context.Context) error {
	r := n.clock.Read()
	if !r.Confirmed || n.draining.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, n.o.Walk.Lease)
	defer cancel()
	return n.worked().roll.Renew(ctx, r.Steady)
}

// passOn passes until there is nothing more to do at once, each pass by a fresh
// reading of the clock. While the clock is in doubt walks stand still (L7).
func (n *Node) passOn(ctx context.Context, p pass) error {
	defer p.shard.Enter()()
	for {
		r := n.clock.Read()
		if !r.Confirmed || n.draining.Load() {
			return nil
		}
		if l := n.rolling.Load(); l != nil && p.shard.Lapsed(r.Steady) {
			l.Wake() // renew at once
		}
		more, err := p.Pass(ctx, r.Steady)
		if err != nil || !more {
			return err
		}
	}
}

const (
	// compareEvery is how often the clock is compared with the store's servers.
	compareEvery = time.Second
	// compareWithin is how long they have to answer: what takes longer than twice
	// the bound says nothing anyway.
	compareWithin = 2 * time.Second
)

// compare asks the store's servers what time it is (L7).
func (n *Node) compare(ctx context.Context) error {
	if n.set.Time == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, compareWithin)
	defer cancel()
	return n.clock.Compare(ctx, n.set.Time.Time)
}

// keepRight compares, and begins the work of a node that could not begin before
// because its clock was off.
func (n *Node) keepRight(ctx context.Context) error {
	if err := n.compare(ctx); err != nil {
		return err
	}
	if r := n.clock.Read(); r.Off {
		return r.Err
	}
	if n.work.Load() != nil {
		return nil
	}
	if err := n.prepare(ctx); err != nil {
		return err
	}
	n.startWork()
	return nil
}

// alone refuses a second process under one name: their marks, chains and places
// would be each other's. A process that was killed has left a mark, too; whether
// it is dead shows when the mark stays as it is.
func (n *Node) alone(ctx context.Context, mark clock.Mark) error {
	if n.set.Time == nil || mark.Left() { // a store of one process has a lock of its own
		return nil
	}
	if err := loop.Rest(ctx, 3*n.o.Clock.SavePeriod); err != nil {
		return err
	}
	again, err := n.marks.Load(ctx)
	if err != nil {
		return err
	}
	if again != mark {
		return clock.Twin(n.o.Name)
	}
	return nil
}
