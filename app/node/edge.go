package node

import (
	"context"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/engine/edge"
)

// edgeEvery is how often the edge is asked about purges that are not verified.
const edgeEvery = time.Second

// openEdge opens the purger of the edge, if the configuration names one.
func (n *Node) openEdge() error {
	o := n.o.Edge
	if len(o.Varnish) == 0 {
		return nil
	}
	varnish, err := edge.NewVarnish(edge.VarnishOptions{URLs: o.Varnish, Secret: o.Secret, Timeout: o.Timeout})
	if err != nil {
		return err
	}
	n.closeEdge = varnish.Close
	n.edge, err = edge.New(n.set, varnish, func() mayfly.Instant { return n.clock.Read().Steady }, edge.Options{})
	return err
}

// purges returns the figures of the purger; zero without an edge.
func (n *Node) purges() edge.Stats {
	if n.edge == nil {
		return edge.Stats{}
	}
	return n.edge.Stats()
}

// Purges lists the purges of the edge that are not verified.
func (d AdminOperations) Purges(ctx context.Context, cursor string, limit int) (wire.Purges, error) {
	out := wire.Purges{Purges: []wire.Purge{}}
	after, err := hex.DecodeString(cursor)
	if err != nil {
		return out, mayfly.Errorf(mayfly.Invalid, "invalid cursor %.40q", cursor).WithHint("use next of the page before")
	}
	for p, err := range edge.List(ctx, d.n.set.Rows, d.n.clock.Read().Steady, string(after)) {
		if err != nil {
			return out, err
		}
		out.Purges = append(out.Purges, wire.Purge{Key: p.Key(), Cause: cause(p), Since: p.Since, Next: p.Next, Attempts: p.Tries, Reason: p.Reason})
		if len(out.Purges) == limit {
			out.Next = hex.EncodeToString([]byte(p.Place()))
			break
		}
	}
	return out, nil
}

// cause returns why something is purged.
func cause(p edge.Purge) string {
	if p.Event.Verb == 0 {
		return "user.blocked"
	}
	return p.Event.Type()
}

// lookAtEdge looks for purges of the item that are not verified.
func (n *Node) lookAtEdge(ctx context.Context, c *inquiry) error {
	c.fact("edge", "key", edge.ItemKey(c.id))
	for p, err := range edge.Of(ctx, n.set.Rows, n.clock.Read().Steady, c.id) {
		if err != nil {
			return err
		}
		c.cached = true
		c.fact("edge", "unverified purge", fmt.Sprintf("%s, since %s, after %d attempts, next at %s: %s", cause(p), p.Since, p.Tries, p.Next, p.Reason))
	}
	c.fact("edge", "verified", !c.cached)
	return nil
}
