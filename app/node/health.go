package node

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

const (
	ready = "ready"
	// draining is what every role says from Leave on.
	draining = "draining: the node stops soon, and answers until then"
	// readWithin is how long a ledger that can be read takes to answer; readAgain is how
	// long an answer is reused, because any client may call the public /readyz often.
	readWithin = 2 * time.Second
	readAgain  = time.Second
	// sweepLag and laterLag are how late walks are when something is wrong (SPEC §10):
	// the sweep, and those that no user waits for.
	sweepLag = 5 * time.Minute
	laterLag = 2 * time.Hour
	// lagging is where a node that is ready says that it is degraded.
	lagging = time.Minute
)

// Health is how the node stands: the store, and each role. Lag makes only the
// walking role not ready: soft expiry does not need it, and a readiness that
// failed on lag would take every api node away at once (O3, trap 17). A node that
// only walks is ready when its walks are.
func (o operator) Health(ctx context.Context) wire.Health {
	api, walks := o.apiState(ctx), o.walkState()
	h := wire.Health{Version: o.version, Roles: map[string]string{"store": ready, "api": api, "walk": walks}}
	if err := o.Err(); err != nil {
		h.Roles["store"] = "a write that must be durable failed: the process must end (I20)"
	}
	h.Ready = api == ready
	if !o.o.does(API) {
		h.Ready = walks == ready
	}
	h.Degraded = !h.Ready || h.Roles["store"] != ready || o.walks() && (walks != ready || lateness(o.Progress("sweep")) > lagging)
	return h
}

// apiState says whether the ledger can be read and the clock is within bound.
func (o operator) apiState(ctx context.Context) string {
	if !o.o.does(API) {
		return "this node serves no users: it has another role"
	}
	if why := o.stands(); why != "" {
		return why
	}
	if !o.reads(ctx) {
		return "the ledger cannot be read"
	}
	return ready
}

// reading is the last answer to whether the ledger can be read.
type reading struct {
	mu    sync.Mutex
	asked bool
	at    time.Duration // when, by the time since the machine started
	ok    bool
}

// reads reports whether the ledger can be read. Concurrent callers share one read,
// which does not end with the context of a caller.
func (n *Node) reads(ctx context.Context) bool {
	r := &n.reading
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.asked && n.o.Source.Read().Boot-r.at < readAgain {
		return r.ok
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readWithin)
	defer cancel()
	r.ok = readsAny(ctx, n.set.Ledger, probes(n.clock.Read().Steady))
	r.asked, r.at = true, n.o.Source.Read().Boot
	return r.ok
}

// readsAny says whether one of the ids can be looked for, before ctx ends.
func readsAny(ctx context.Context, ledger store.Ledger, ids []mayfly.ID) bool {
	errs := make(chan error, len(ids))
	for _, id := range ids {
		go func() {
			_, err := ledger.Get(ctx, id)
			errs <- err
		}()
	}
	for range ids {
		select {
		case err := <-errs:
			if err == nil {
				return true
			}
		case <-ctx.Done():
			return false
		}
	}
	return false
}

// probes are ids that a ledger can look for, each in a partition of its own:
// one of them that is away takes no node out of rotation.
func probes(now mayfly.Instant) []mayfly.ID {
	const count, past = 3, 30 * 24 * time.Hour
	day, err := mayfly.LifetimeOf(24 * time.Hour)
	if err != nil {
		panic(err) // a constant
	}
	ids := make([]mayfly.ID, count)
	for i := range ids {
		birth := max(0, now.Add(-rand.N(past)))
		if ids[i], err = mayfly.NewID(birth, day, 0, rand.Uint64()); err != nil {
			panic(err) // an instant of this clock
		}
	}
	return ids
}

// stands says why the node is ready for nothing at all; "" if it may be.
func (o operator) stands() string {
	if o.Err() != nil {
		return "the store can promise nothing any more"
	}
	if o.leaving.Load() {
		return draining
	}
	switch r := o.clock.Read(); {
	case r.Off:
		return r.Err.Error()
	case !r.Confirmed:
		return "the clock is in doubt: nothing is published, and walks stand still, until it is confirmed"
	}
	if err := o.prepared(); err != nil {
		return err.Error()
	}
	return ""
}

func (o operator) walkState() string {
	if !o.walks() {
		return "this node does not walk"
	}
	if why := o.stands(); why != "" {
		return why
	}
	switch late, later := lateness(o.Progress("sweep")), lateness(o.Progress("")); {
	case late > sweepLag:
		return fmt.Sprintf("the sweep is %s late", late.Round(time.Second))
	case later > laterLag:
		return fmt.Sprintf("a walk is %s late", later.Round(time.Second))
	}
	if all := o.worked().roll.Forsaken(o.clock.Read().Steady); len(all) > 0 {
		return fmt.Sprintf("degraded: nobody walks shards %v: see what the walking nodes log of their roll; start one more, or one of them again", all)
	}
	return ready
}

// lateness is the largest lag of walks that this process does.
func lateness(all []walk.Progress) time.Duration {
	var late time.Duration
	for _, p := range all {
		if p.Held {
			late = max(late, p.Lag)
		}
	}
	return late
}
