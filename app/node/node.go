// Package node runs one process of the system. It takes a store.Set, opens the
// engine and the products on it, and runs the loops of its roles: the walks, the
// clock's mark, the trimming of the log.
//
// It starts nothing before its clock has continued from the stored mark (I9) and,
// where several nodes share a store, was compared with the store's servers. No walk
// moves while the clock is unconfirmed (L7). It never opens a driver.
package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/httpapi"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/engine/accounterase"
	"github.com/mayflyhq/mayfly/engine/archive"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/clock"
	"github.com/mayflyhq/mayfly/engine/edge"
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
	"github.com/mayflyhq/mayfly/product/feed"
	"github.com/mayflyhq/mayfly/product/kv"
	"github.com/mayflyhq/mayfly/product/paste"
	"github.com/mayflyhq/mayfly/product/story"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/loop"
)

// Disk is what is left to erase and to reclaim on the disk of a node.
type Disk struct {
	StuckFiles    int            // files of deleted media that could not be removed or overwritten
	UnerasedBytes int64          // of deleted media that are still in files
	ReclaimLag    time.Duration  // for how long the oldest row has been past its time and is still there
	RowsErased    mayfly.Instant // when deleted rows were last erased from the files; 0 is never
}

// Options are the settings of a node. A zero field has its default.
type Options struct {
	Name    string             // name of this node, under which it stores its clock's mark; default "node"
	Roles   []Role             // what the node does (O6); empty: everything
	Source  clock.Source       // source of time; default the system's clock
	Follow  func(*clock.Clock) // gets the node's clock before it is used; may be nil
	Cadence time.Duration      // pause between two passes of a walk; default 1 s
	LogKept time.Duration      // how long events are kept; default 30 days

	TrimEvery    time.Duration                                       // how often older events are removed; default 1 h
	ReclaimEvery time.Duration                                       // how often Reclaim is called; default 1 min
	Reclaim      func(ctx context.Context, now mayfly.Instant) error // frees the space of rows that were removed; may be nil
	EraseRows    func(ctx context.Context, now mayfly.Instant) error // erases the bytes of deleted rows when it is time to; may be nil
	Disk         func() (Disk, bool)                                 // tells what is left to erase and to reclaim; may be nil
	Problem      func(loop string, err error)                        // gets the error of a loop, which tries again; may be nil

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
	Edge       config.Edge // the shared caches in front of the API

	ArchiveLateness time.Duration // lateness up to which the walks behind the sweep run slowly; default 10 min
	ArchiveTimeout  time.Duration // timeout of one of their batches; default 5 min
	AccountsEvery   time.Duration // how often erased accounts are looked at again; default 10 s
	Idle            bool          // start no loops: for work on a store that no node serves

	Upkeep
}

// Node is a running process.
type Node struct {
	set       store.Set
	o         Options
	clock     *clock.Clock
	marks     *clock.Marks
	refused   *prometheus.CounterVec // transitions, by state
	engine    parts
	accounts  *account.Accounts // nil without a key
	stories   *story.Stories    // nil without the product
	pastes    *paste.Pastes     // nil without the product
	posts     *feed.Feed        // nil without the product
	kv        *kv.KV            // nil without the product
	edge      *edge.Purger      // nil without an edge
	closeEdge func()
	opened    []opened          // the products
	readers   []*logread.Reader // readers of the event log of products

	firstRequests *otter.Cache[mayfly.UserID, struct{}] // users whose first request was seen

	work     atomic.Pointer[work]        // nil until the clock was within bound for the first time
	api      atomic.Pointer[httpapi.API] // nil until API is called
	leaving  atomic.Bool                 // not ready any more, but still answering
	draining atomic.Bool                 // no walk starts a pass any more
	reading  reading
	marking  atomic.Pointer[loop.Loop] // saves the clock's mark
	rolling  atomic.Pointer[loop.Loop] // looks at the roll

	running  context.Context // context of the loops
	stopping context.CancelFunc
	mu       sync.Mutex // guards loops
	loops    []*loop.Loop
}

// Start starts a node on set with products; without any, with those of Products. A
// node whose clock is off starts too, so that its health says so. It begins its work
// when the clock is within bound.
func Start(ctx context.Context, set store.Set, o Options, products ...Product) (*Node, error) {
	if len(products) == 0 {
		products = Products()
	}
	o = o.withDefaults(set)
	ledger := countRefused(set.Ledger)
	set.Ledger = ledger
	n := &Node{set: set, o: o, refused: ledger.refused, marks: clock.NewMarks(set.Rows, o.Name)}
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

// prepare does what comes before the first read: it erases accounts again that an
// old backup brought back (ST14), and opens the walks.
func (n *Node) prepare(ctx context.Context) error {
	if n.set.Deletions != nil {
		if _, err := n.engine.accounts.Replay(ctx, n.clock.Read().Steady); err != nil {
			return err
		}
	}
	origin, err := walk.Origin(ctx, n.set.Rows, n.clock.Read().Steady) // before any birth, also on a node that does not walk
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

// Clock returns the node's clock.
func (n *Node) Clock() *clock.Clock { return n.clock }

// Store returns the store, for products.
func (n *Node) Store() store.Set { return n.set }

// Intake returns the intake, which publishes items.
func (n *Node) Intake() *intake.Intake { return n.engine.intake }

// Uploads returns the store of media that are not published yet.
func (n *Node) Uploads() *upload.Uploads { return n.engine.uploads }

// Gate returns the gate, through which items are read.
func (n *Node) Gate() *gate.Gate { return n.engine.gate }

// Hydrate returns the reader of the media of items that the gate has opened.
func (n *Node) Hydrate() *hydrate.Hydrate { return n.engine.hydrate }

// Erase returns what deletes and erases items.
func (n *Node) Erase() *erase.Erase { return n.engine.erase }

// AccountErase returns what erases accounts.
func (n *Node) AccountErase() *accounterase.Eraser { return n.engine.accounts }

// Restore returns what restores, holds and releases items.
func (n *Node) Restore() *restore.Restore { return n.engine.restore }

// Audit returns the audit log.
func (n *Node) Audit() *audit.Log { return n.engine.audit }

// Found returns the items that reconcile has found stuck and scheduled again since
// the start; none in a healthy system (L6).
func (n *Node) Found() sweep.Found { return n.engine.reconcile.Found() }

// Blown returns a channel that is closed when the store can no longer promise
// durability: the process should end with Err (I20).
func (n *Node) Blown() <-chan struct{} { return n.set.Fuse.Blown() }

// Err returns why the process must end; nil while it need not.
func (n *Node) Err() error { return n.set.Fuse.Err() }

// DiskFailed reports whether err is the error that ends a node: a write that must
// be durable failed, and nothing more is acknowledged.
func DiskFailed(err error) bool {
	var blown *store.FuseError
	return errors.As(err, &blown)
}

// Progress returns the progress of a walk in every shard; of all walks if name is
// empty.
func (n *Node) Progress(name string) []walk.Progress {
	var all []walk.Progress
	for _, w := range n.worked().walkers {
		if p := w.Progress(); name == "" || name == p.Walk {
			all = append(all, p)
		}
	}
	return all
}

// Leave makes the node report that it is not ready, for any role. It works on until
// Stop, so that a load balancer has time to send users to other nodes.
func (n *Node) Leave() {
	n.leaving.Store(true)
	if api := n.api.Load(); api != nil {
		api.Drain()
	}
}

const (
	// drainWithin is how long Stop waits for batches that are under way.
	drainWithin = 5 * time.Second
	// leaveWithin is how long Stop tries to write that the node leaves, before those
	// batches and after them. If it cannot, its leases run out.
	leaveWithin = 4 * time.Second
)

// Stop leaves the roll, waits for batches that are under way, ends the loops,
// releases the shards and stores the last mark.
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

// drain waits until no walk is in a shard. The next node that walks the shard does
// again what was interrupted.
func (n *Node) drain(ctx context.Context) {
	const look = 10 * time.Millisecond
	for waited := time.Duration(0); n.worked().busy() && waited < drainWithin; waited += look {
		if loop.Rest(ctx, look) != nil {
			return
		}
	}
}

// mayMint returns why no id may be made now; nil if one may.
func (n *Node) mayMint() error {
	if err := n.clock.Read().Err; err != nil {
		return err
	}
	return n.prepared()
}

// prepared returns an error while the node has not begun its work.
func (n *Node) prepared() error {
	if n.work.Load() == nil {
		return mayfly.Errorf(mayfly.Unavailable, "the node is starting").WithHint("it begins when its clock is within bound: see /readyz on the admin listener")
	}
	return nil
}

// markSoon saves the mark soon. The clock calls it after it has followed a correction.
func (n *Node) markSoon() {
	if l := n.marking.Load(); l != nil {
		l.Wake()
	}
}

// saveMark stores the clock's mark, except while a step of the clock is unconfirmed.
func (n *Node) saveMark(ctx context.Context) error {
	mark, ok := n.clock.Mark()
	if !ok {
		return nil
	}
	return n.marks.Save(ctx, mark)
}

// lastMark stores the mark which says that no process runs under this name.
func (n *Node) lastMark(ctx context.Context) error {
	mark, ok := n.clock.Mark()
	if !ok {
		return nil
	}
	return n.marks.Save(ctx, mark.Last())
}
