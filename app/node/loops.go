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
		o.Clock.Skew = 0 // no other node uses the store
	}
	if o.Walk.Holder == "" {
		o.Walk.Holder = o.Name + "-" + rand.Text()
	}
	if o.Walk.Slots == nil {
		// Half of the cores are kept for reads, whatever the backlog (L5).
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

// startLoop starts a loop that runs again soon after it failed, because a mark is
// good for two of its periods and a walk may be a minute late.
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

// rollEvery is the longest pause between two looks at the roll. A lease is renewed
// after a third of its time.
const rollEvery = 5 * time.Second

// startWork starts the walks and the upkeep of a node that walks.
func (n *Node) startWork() {
	w := n.worked()
	if w.roll == nil {
		return
	}
	if err := n.renew(n.running); err != nil { // so that the walks that start now hold their shards
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
	if n.edge != nil {
		upkeep("edge", edgeEvery, n.edge.Pass)
	}
	if n.o.EraseRows != nil {
		upkeep("erase rows", eraseRowsLook, n.o.EraseRows)
	}
	for _, p := range n.opened {
		if p.Upkeep != nil {
			upkeep(p.Name+" upkeep", productUpkeep, p.Upkeep)
		}
	}
	n.startUpkeep()
}

// productUpkeep is how often the upkeep of a product is called.
const productUpkeep = time.Minute

// eraseRowsLook is how often the node asks whether deleted rows are to be erased.
const eraseRowsLook = 10 * time.Minute

// whenMine returns work that is done once for all shards, if this node has to do it.
func (n *Node) whenMine(do func(context.Context, mayfly.Instant) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if now, may := n.mayUpkeep(); may {
			return do(ctx, now)
		}
		return nil
	}
}

// renew renews the node's entry in the roll and the leases of its shards. While the
// clock is unconfirmed it does not, and other nodes take over.
func (n *Node) renew(ctx context.Context) error {
	r := n.clock.Read()
	if !r.Confirmed || n.draining.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, n.o.Walk.Lease)
	defer cancel()
	return n.worked().roll.Renew(ctx, r.Steady)
}

// passOn makes passes until there is nothing more to do now, each with a new reading
// of the clock. While the clock is unconfirmed no walk moves (L7).
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
	// compareWithin is the timeout of a comparison: a slower answer is too imprecise to
	// be used.
	compareWithin = 2 * time.Second
)

// compare compares the clock with the store's servers (L7).
func (n *Node) compare(ctx context.Context) error {
	if n.set.Time == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, compareWithin)
	defer cancel()
	return n.clock.Compare(ctx, n.set.Time.Time)
}

// keepRight compares the clock, and begins the work of a node that could not begin
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

// alone refuses to start while another process runs under the same name: both would
// write the same mark, audit chain and entry in the roll. A process that was killed
// has left a mark too; if that does not change for a while, the process is dead.
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
