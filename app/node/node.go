// Package node is in charge of a running process: it takes a store.Set, reads
// its clock's mark, opens gate and intake, and keeps the loops going that its roles
// ask for: the walks, the mark of the clock, the trimming of the log.
//
// It starts nothing before the clock has gone on from its mark (I9); where nodes
// share a store, before it was compared; and no walk moves while it is in doubt
// (L7). It never opens a driver.
package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/httpapi"
	"github.com/mayflyhq/mayfly/engine/accounterase"
	"github.com/mayflyhq/mayfly/engine/archive"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/clock"
	"github.com/mayflyhq/mayfly/engine/erase"
	"github.com/mayflyhq/mayfly/engine/gate"
	"github.com/mayflyhq/mayfly/engine/hydrate"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/engine/logread"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/restore"
	"github.com/mayflyhq/mayfly/engine/sweep"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/product/story"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/loop"
)

// Options are a node's settings; what is zero takes its default.
type Options struct {
	Name    string             // of this node, for its mark; default "node"
	Roles   []Role             // what it does (O6); empty is all
	Source  clock.Source       // of time; default the system's
	Follow  func(*clock.Clock) // is told of the node's clock before anything is written by it; may be nil
	Cadence time.Duration      // of the walks; default 1 s
	LogKept time.Duration      // how long events are kept; default 30 days

	TrimEvery    time.Duration                                       // how often older events are forgotten; default 1 h
	ReclaimEvery time.Duration                                       // how often Reclaim is called; default 1 min
	Reclaim      func(ctx context.Context, now mayfly.Instant) error // takes space back that tables have given up; may be nil
	Problem      func(loop string, err error)                        // is told what a loop could not do, and will try again; may be nil

	Clock     clock.Options
	Gate      gate.Options
	Uploads   upload.Options
	Intake    intake.Options
	Walk      walk.Options
	Sweep     sweep.Options
	Reconcile sweep.ReconcileOptions
	Archive   archive.Options
	Retire    archive.RetireOptions
	Erase     erase.Options
	Settle    time.Duration // after this time no birth is in flight any more; default 1 min
	Restore   restore.Options
	Remind    remind.Options
	// Tombstones is handed to every part of the engine that deletes items.
	Tombstones remind.Tombstones
	Products   ProductOptions

	ArchiveLateness time.Duration // how late the walks behind the sweep may be while they go slowly; default 10 min
	ArchiveTimeout  time.Duration // of one of their batches; default 5 min
	AccountsEvery   time.Duration // how often erased accounts are looked at again; default 10 s
	Idle            bool          // start no loops: for work on a store that no node serves

	Upkeep
}

// Node is a running process.
type Node struct {
	set      store.Set
	o        Options
	clock    *clock.Clock
	marks    *clock.Marks
	engine   parts
	accounts *account.Accounts // nil without a key
	stories  *story.Stories    // nil without the product
	opened   []opened          // the products
	readers  []*logread.Reader // of the event log, for products

	firstRequests *otter.Cache[mayfly.UserID, struct{}] // users that had their first request

	work     atomic.Pointer[work]        // nil until the clock was right for the first time
	api      atomic.Pointer[httpapi.API] // nil until API is called
	leaving  atomic.Bool                 // it is ready for nothing any more, and goes on
	draining atomic.Bool                 // no walk begins any more
	reading  reading
	marking  atomic.Pointer[loop.Loop] // saves the clock's mark
	rolling  atomic.Pointer[loop.Loop] // looks at the roll

	running  context.Context // of the loops
	stopping context.CancelFunc
	mu       sync.Mutex // of loops
	loops    []*loop.Loop
}

// Start starts a node on set with products; without any it has those of
// Products. A node whose clock is not right starts all the
// same, so that it can say so: it begins its work when the clock is.
func Start(ctx context.Context, set store.Set, o Options, products ...Product) (*Node, error) {
	if len(products) == 0 {
		products = Products()
	}
	o = o.withDefaults(set)
	n := &Node{set: set, o: o, marks: clock.NewMarks(set.Rows, o.Name)}
	n.running, n.stopping = context.WithCancel(context.Background())
	if err := n.start(ctx, products); err != nil {
		n.stopping()
		return nil, errors.Join(fmt.Errorf("start: %w", err), n.closeEngine())
	}
	if o.Idle {
		return n, nil
	}
	n.marking.Store(n.startLoop("mark", n.o.Clock.SavePeriod, n.saveMark))
	if n.work.Load() != nil {
		n.startWork()
	}
	if set.Time != nil {
		n.startLoop("clock", compareEvery, n.keepRight)
	}
	if err := n.startProducts(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start: %w", err), n.Stop(ctx))
	}
	return n, nil
}

func (n *Node) start(ctx context.Context, products []Product) error {
	mark, err := n.marks.Load(ctx)
	if err != nil {
		return err
	}
	if err := n.alone(ctx, mark); err != nil {
		return err
	}
	n.o.Clock.Jumped = n.markSoon
	n.clock = clock.New(n.o.Source, n.o.Clock, mark)
	if n.o.Follow != nil {
		n.o.Follow(n.clock)
	}
	if err := n.compare(ctx); err != nil {
		n.o.Problem("clock", err)
	}
	if err := n.saveMark(ctx); err != nil {
		return err
	}
	if err := n.open(ctx, products); err != nil {
		return err
	}
	if r := n.clock.Read(); !r.Off {
		return n.prepare(ctx)
	} else if n.o.Idle {
		return r.Err
	}
	return nil
}

// prepare does what comes before the first read: an account that was erased does
// not come back with an old backup (ST14).
func (n *Node) prepare(ctx context.Context) error {
	if n.set.Deletions != nil {
		if _, err := n.engine.accounts.Replay(ctx, n.clock.Read().Steady); err != nil {
			return err
		}
	}
	origin, err := walk.Origin(ctx, n.set.Rows, n.clock.Read().Steady) // before any birth, also of a node that does not walk
	if err != nil {
		return err
	}
	w := &work{}
	if n.walks() {
		if w, err = n.openWalks(origin); err != nil {
			return err
		}
	}
	n.work.Store(w)
	return nil
}

// Clock is the node's one clock.
func (n *Node) Clock() *clock.Clock { return n.clock }

// Store returns the store, for products.
func (n *Node) Store() store.Set { return n.set }

// Intake is where items are born.
func (n *Node) Intake() *intake.Intake { return n.engine.intake }

// Uploads stores the media of items before they are born.
func (n *Node) Uploads() *upload.Uploads { return n.engine.uploads }

// Gate is where they are read.
func (n *Node) Gate() *gate.Gate { return n.engine.gate }

// Hydrate is where the media of what the gate has opened are read.
func (n *Node) Hydrate() *hydrate.Hydrate { return n.engine.hydrate }

// Erase deletes items.
func (n *Node) Erase() *erase.Erase { return n.engine.erase }

// AccountErase erases accounts.
func (n *Node) AccountErase() *accounterase.Eraser { return n.engine.accounts }

// Restore is where support brings items back, holds and releases them.
func (n *Node) Restore() *restore.Restore { return n.engine.restore }

// Audit is the record of what support and operators do.
func (n *Node) Audit() *audit.Log { return n.engine.audit }

// Found is what reconcile has found and put back on its way since the start; in
// a healthy system nothing (L6).
func (n *Node) Found() sweep.Found { return n.engine.reconcile.Found() }

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

// Progress is how a walk stands in every shard; of all walks if none is named.
func (n *Node) Progress(name string) []walk.Progress {
	var all []walk.Progress
	for _, w := range n.worked().walkers {
		if p := w.Progress(); name == "" || name == p.Walk {
			all = append(all, p)
		}
	}
	return all
}

// Leave says from now on that the node is not ready, for any role. Everything goes
// on until Stop: whoever sends users here has time to send them elsewhere.
func (n *Node) Leave() {
	n.leaving.Store(true)
	if api := n.api.Load(); api != nil {
		api.Drain()
	}
}

const (
	// drainWithin is how long a stop lets batches that are under way finish.
	drainWithin = 5 * time.Second
	// leaveWithin is how long a stop tries to tell the store that it goes, before
	// they finish and afterwards. What it could not tell its leases tell, which run out.
	leaveWithin = 4 * time.Second
)

// Stop leaves the roll, lets the batches that are under way finish, ends the
// loops, gives the shards up and leaves a last mark.
func (n *Node) Stop(ctx context.Context) error {
	n.Leave()
	n.draining.Store(true)
	var errs []error
	if n.set.Fuse.Err() == nil {
		errs = append(errs, within(ctx, leaveWithin, n.worked().leave))
		n.drain(ctx)
	}
	n.stopping()
	n.mu.Lock()
	loops := n.loops
	n.mu.Unlock()
	for _, l := range loops {
		errs = append(errs, l.Stop(ctx))
	}
	if n.set.Fuse.Err() == nil {
		errs = append(errs, within(ctx, leaveWithin, n.worked().leave), within(ctx, leaveWithin, n.lastMark))
	}
	errs = append(errs, n.stopProducts(ctx), n.closeEngine())
	return errors.Join(errs...)
}

func within(ctx context.Context, most time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	return do(ctx)
}

// drain waits until nothing passes over a shard. What is cut off is done again by
// whoever walks next.
func (n *Node) drain(ctx context.Context) {
	const look = 10 * time.Millisecond
	for waited := time.Duration(0); n.worked().busy() && waited < drainWithin; waited += look {
		if loop.Rest(ctx, look) != nil {
			return
		}
	}
}

// mayMint says why nothing may be minted.
func (n *Node) mayMint() error {
	if err := n.clock.Read().Err; err != nil {
		return err
	}
	return n.prepared()
}

// prepared says that the node has not begun its work yet.
func (n *Node) prepared() error {
	if n.work.Load() == nil {
		return mayfly.Errorf(mayfly.Unavailable, "the node is starting").WithHint("it begins as soon as its clock is right: see /readyz on the admin listener")
	}
	return nil
}

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
	return n.marks.Save(ctx, mark)
}

// lastMark leaves the mark that says that nobody is left.
func (n *Node) lastMark(ctx context.Context) error {
	mark, ok := n.clock.Mark()
	if !ok {
		return nil
	}
	return n.marks.Save(ctx, mark.Last())
}
