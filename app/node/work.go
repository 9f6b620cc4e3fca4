package node

import (
	"context"
	"fmt"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/walk"
)

// work holds the walks of a node; it is empty on a node that does not walk.
type work struct {
	roll    *walk.Roll
	walkers []reporter
	passes  []pass
}

// pass is a walk of one shard with the pause between two passes.
type pass struct {
	name  string
	every time.Duration
	shard *walk.Shard
	passer
}

type reporter interface{ Progress() walk.Progress }

type passer interface {
	Pass(ctx context.Context, now mayfly.Instant) (more bool, err error)
}

// worked returns the walks of the node; empty before it has begun its work.
func (n *Node) worked() *work {
	if w := n.work.Load(); w != nil {
		return w
	}
	return &work{}
}

// walks reports whether the node walks.
func (n *Node) walks() bool { return n.o.does(Walk) && !n.o.Idle }

// openWalks opens the walks and the reminders of every shard.
func (n *Node) openWalks(origin mayfly.Instant) (*work, error) {
	n.o.Remind.Budget = n.engine.budget
	// They copy media and read every view.
	n.o.Remind.Slow = map[remind.Step]time.Duration{remind.Archive: n.o.ArchiveTimeout, remind.Count: n.o.ArchiveTimeout}
	steps, o := n.steps(), n.o.Walk
	w := &work{roll: walk.NewRoll(n.set.Rows, walk.Turn{Name: n.o.Name, Holder: o.Holder, Lease: o.Lease, Origin: origin})}
	for _, shard := range w.roll.Shards() {
		for _, s := range steps {
			walker, err := walk.New(n.set, s.walk, shard, s.o)
			if err != nil {
				return nil, fmt.Errorf("walk %s: %w", s.walk.Name, err)
			}
			w.walkers = append(w.walkers, walker)
			w.passes = append(w.passes, pass{s.walk.Name, s.every, shard, walker})
		}
		r, err := remind.New(n.set, shard, n.acts(), n.o.Remind)
		if err != nil {
			return nil, err
		}
		for _, lane := range r.Lanes() {
			w.walkers = append(w.walkers, lane)
			w.passes = append(w.passes, pass{lane.Name(), n.o.Cadence, shard, lane})
		}
	}
	return w, nil
}

func (w *work) leave(ctx context.Context) error {
	if w.roll == nil {
		return nil
	}
	return w.roll.Leave(ctx)
}

func (w *work) busy() bool { return w.roll != nil && w.roll.Busy() }

// held returns the shards that the node holds at now.
func (w *work) held(now mayfly.Instant) (all []*walk.Shard) {
	if w.roll == nil {
		return nil
	}
	for _, s := range w.roll.Shards() {
		if w.roll.Holds(s.Number(), now) {
			all = append(all, s)
		}
	}
	return all
}

// Shards returns the shards that this node walks now.
func (n *Node) Shards() (all []mayfly.Shard) {
	for _, s := range n.worked().held(n.clock.Read().Steady) {
		all = append(all, s.Number())
	}
	return all
}

// upkeepShard is the shard whose holder does the work that is done once for all
// shards: of several nodes one does it, and another one when that one is gone.
const upkeepShard mayfly.Shard = 0

// mayUpkeep reports whether this node does the upkeep, and returns the time for it.
// While the clock is unconfirmed nothing is erased (L7).
func (n *Node) mayUpkeep() (now mayfly.Instant, may bool) {
	r, w := n.clock.Read(), n.worked()
	return r.Steady, r.Confirmed && w.roll != nil && w.roll.Holds(upkeepShard, r.Steady)
}
