package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/walk"
	"github.com/mayflyhq/mayfly/wire"
)

const (
	ready = "ready"
	// readWithin is how long a ledger that can be read takes to answer.
	readWithin = 2 * time.Second
	// sweepLag and laterLag are how late walks are when something is wrong (SPEC §10):
	// the sweep, and those that nobody waits for.
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
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	if _, err := o.set.Ledger.Get(ctx, probe()); err != nil {
		return "the ledger cannot be read"
	}
	return ready
}

// stands says why the node does nothing at all; "" if it does.
func (o operator) stands() string {
	if o.Err() != nil {
		return "the store can promise nothing any more"
	}
	switch r := o.clock.Read(); {
	case r.Off:
		return hinted(r.Err)
	case !r.Confirmed:
		return "the clock is in doubt: nothing is published, and walks stand still, until it is confirmed"
	}
	if err := o.prepared(); err != nil {
		return err.Error()
	}
	return ""
}

// hinted is an error with what to do about it.
func hinted(err error) string {
	var e *mayfly.Error
	if errors.As(err, &e) && e.Hint != "" {
		return fmt.Sprintf("%s: %s", err, e.Hint)
	}
	return err.Error()
}

// probe is an id that a ledger can look for.
func probe() mayfly.ID {
	id, err := mayfly.ParseID("019a8b2f-0c00-8818-9a5d-1f0e9c2b7a43")
	if err != nil {
		panic(err) // a constant
	}
	return id
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
