package node

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

const (
	ready = "ready"
	// draining is the state of every role after Leave.
	draining = "draining: the node stops soon and answers until then"
	// readWithin is the timeout of the read that tests the ledger; its result is reused
	// for readAgain, because any client may call the public /readyz often.
	readWithin = 2 * time.Second
	readAgain  = time.Second
	// sweepLag and laterLag are how late the sweep, and the walks that no user waits
	// for, may be before the node is not ready (SPEC §10).
	sweepLag = 5 * time.Minute
	laterLag = 2 * time.Hour
	// lagging is how late the sweep may be before a ready node is degraded, and
	// remindersLag how late the reminders may be (L13).
	lagging      = time.Minute
	remindersLag = 5 * time.Minute
)

// Health returns the state of the store and of each role. Lag affects only the role
// walk: reads do not depend on walks, and a readiness that failed on lag would take
// every api node out of rotation at once (O3, trap 17). A node that only walks is
// ready when its walks are.
func (o operator) Health(ctx context.Context) wire.Health {
	api, walks := o.apiState(ctx), o.walkState()
	h := wire.Health{Version: o.version, Roles: map[string]string{"store": ready, "api": api, "walk": walks}}
	if err := o.Err(); err != nil {
		h.Roles["store"] = "a write that must be durable failed: the process must end"
	}
	h.Ready = api == ready
	if !o.o.does(API) {
		h.Ready = walks == ready
	}
	h.Degraded = !h.Ready || h.Roles["store"] != ready ||
		o.walks() && (walks != ready || lateness(o.Progress("sweep")) > lagging || lateness(o.Progress(remind.Name)) > remindersLag)
	return h
}

// apiState returns ready, or why the node does not serve users.
func (o operator) apiState(ctx context.Context) string {
	if !o.o.does(API) {
		return "this node serves no users: it does not have the role api"
	}
	if why := o.stands(); why != "" {
		return why
	}
	if !o.reads(ctx) {
		return "the ledger cannot be read"
	}
	return ready
}

// reading is the last result of reading the ledger.
type reading struct {
	mu    sync.Mutex
	asked bool
	at    time.Duration // when, in time since the machine was booted
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

// readsAny reports whether a look-up of one of the ids succeeds before ctx ends.
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

// probes returns ids to look up, each in a partition of its own, so that one
// partition that is unavailable takes no node out of rotation.
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

// stands returns why no role of the node is ready; "" if they may be.
func (o operator) stands() string {
	if o.Err() != nil {
		return "the store cannot promise durability any more"
	}
	if o.leaving.Load() {
		return draining
	}
	switch r := o.clock.Read(); {
	case r.Off:
		return r.Err.Error()
	case !r.Confirmed:
		return "the clock is unconfirmed: until it is confirmed nothing is published and no walk moves"
	}
	if err := o.prepared(); err != nil {
		return err.Error()
	}
	return ""
}

// walkState returns ready, or why the node does not walk as it should.
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
		return fmt.Sprintf("degraded: no node walks shards %v: look for loop=roll in the logs of the walking nodes; start another one, or restart one of them", all)
	}
	return ready
}

// lateness returns the largest lag of the walks that this process runs.
func lateness(all []walk.Progress) time.Duration {
	var late time.Duration
	for _, p := range all {
		if p.Held {
			late = max(late, p.Lag)
		}
	}
	return late
}
