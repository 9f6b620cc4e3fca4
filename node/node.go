// Package node is in charge of a running process: it takes a store.Set, reads
// its clock's mark, opens gate and intake, and keeps the loops going: the walks,
// the mark of the clock, the trimming of the log.
//
// It starts nothing before the clock has gone on from its mark (I9), and no walk
// moves while the clock is in doubt (L7). It never opens a driver.
package node

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/clock"
	"github.com/mayflyhq/mayfly/gate"
	"github.com/mayflyhq/mayfly/intake"
	"github.com/mayflyhq/mayfly/loop"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/sweep"
	"github.com/mayflyhq/mayfly/walk"
)

// Options are a node's settings; what is zero takes its default.
type Options struct {
	Name    string        // of this node, for its mark; default "node"
	Source  clock.Source  // of time; default the system's
	Cadence time.Duration // of the walks; default 1 s
	LogKept time.Duration // how long events are kept; default 30 days

	TrimEvery    time.Duration                                       // how often older events are forgotten; default 1 h
	ReclaimEvery time.Duration                                       // how often Reclaim is called; default 1 min
	Reclaim      func(ctx context.Context, now mayfly.Instant) error // takes space back that tables have given up; may be nil
	Problem      func(loop string, err error)                        // is told what a loop could not do, and will try again; may be nil

	Clock  clock.Options
	Gate   gate.Options
	Intake intake.Options
	Walk   walk.Options
}

// Node is a running process.
type Node struct {
	set      store.Set
	o        Options
	clock    *clock.Clock
	intake   *intake.Intake
	gate     *gate.Gate
	shards   []*walk.Shard
	walkers  []*walk.Walker
	loops    []*loop.Loop
	marking  atomic.Pointer[loop.Loop] // saves the clock's mark
	stopping context.CancelFunc
}

// Start starts a node on set.
func Start(ctx context.Context, set store.Set, o Options) (*Node, error) {
	o = o.withDefaults()
	n := &Node{set: set, o: o}
	mark, err := clock.Load(ctx, set.Rows, o.Name)
	if err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	o.Clock.Jumped = n.markSoon
	n.clock = clock.New(o.Source, o.Clock, mark)
	if err := n.saveMark(ctx); err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	o.Intake.MayMint = n.mayMint
	o.Intake.Now = func() mayfly.Instant { return n.clock.Read().Now }
	if n.intake, err = intake.New(set, o.Intake); err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	if n.gate, err = gate.New(ctx, set, o.Gate); err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	if err := n.openWalks(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start: %w", err), n.gate.Close())
	}
	n.startLoops()
	return n, nil
}

// Clock is the node's one clock.
func (n *Node) Clock() *clock.Clock { return n.clock }

// Intake is where items are born.
func (n *Node) Intake() *intake.Intake { return n.intake }

// Gate is where they are read.
func (n *Node) Gate() *gate.Gate { return n.gate }

// Blown is closed when a store can no longer promise durability: the process
// should end with Err (I20).
func (n *Node) Blown() <-chan struct{} { return n.set.Fuse.Blown() }

// Err is why the node must end; nil while it need not.
func (n *Node) Err() error { return n.set.Fuse.Err() }

// DiskFailed says whether err is the one that ends a node: a write that must be
// durable failed, and nothing more is acknowledged.
func DiskFailed(err error) bool {
	var blown *store.FuseError
	return errors.As(err, &blown)
}

// Progress is how the walks stand.
func (n *Node) Progress() []walk.Progress {
	all := make([]walk.Progress, len(n.walkers))
	for i, w := range n.walkers {
		all[i] = w.Progress()
	}
	return all
}

// Stop ends the loops, gives the shards up and leaves a last mark.
func (n *Node) Stop(ctx context.Context) error {
	n.stopping()
	var errs []error
	for _, l := range n.loops {
		errs = append(errs, l.Stop(ctx))
	}
	if n.set.Fuse.Err() == nil {
		for _, s := range n.shards {
			errs = append(errs, s.Release(ctx))
		}
		errs = append(errs, n.saveMark(ctx))
	}
	errs = append(errs, n.gate.Close())
	return errors.Join(errs...)
}

func (n *Node) mayMint() error { return n.clock.Read().Err }

// markSoon is what the clock calls when it has followed a correction.
func (n *Node) markSoon() {
	if l := n.marking.Load(); l != nil {
		l.Wake()
	}
}

// saveMark leaves the clock's mark, except while a step of it is in doubt.
func (n *Node) saveMark(ctx context.Context) error {
	mark, ok := n.clock.Mark()
	if !ok {
		return nil
	}
	return clock.Save(ctx, n.set.Rows, n.o.Name, mark)
}

func (n *Node) openWalks(ctx context.Context) error {
	now := n.clock.Read().Steady
	origin, err := walk.Origin(ctx, n.set.Rows, now)
	if err != nil {
		return err
	}
	for number := range mayfly.Shard(mayfly.Shards) {
		shard := walk.NewShard(n.set.Rows, number, n.o.Walk.Holder, n.o.Walk.Lease, origin)
		w, err := walk.New(n.set, sweep.New(n.set), shard, n.o.Walk)
		if err != nil {
			return err
		}
		n.shards = append(n.shards, shard)
		n.walkers = append(n.walkers, w)
	}
	return nil
}
