package node

import (
	"context"
	"fmt"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/gate"
	"github.com/mayflyhq/mayfly/store"
)

// Explain answers why viewer sees an item at an instant, or does not (ST12): in
// sentences first, then everything that they rest on. It is for operators: what it
// tells no viewer may know. An id that never was is explained too. The row is
// judged as it is now, whatever the instant.
func (n *Node) Explain(ctx context.Context, id mayfly.ID, viewer mayfly.Viewer, at mayfly.Instant) (wire.Explanation, error) {
	if !id.Valid() {
		return wire.Explanation{}, mayfly.Errorf(mayfly.Invalid, "explain: %s is not an id", id).WithHint("an id is a UUID or its 22 characters of base62")
	}
	c := &inquiry{id: id, viewer: viewer, at: at}
	for _, look := range []func(context.Context, *inquiry) error{
		n.lookAtRow, n.lookAtRelation, n.lookAtIndexes, n.lookAtWalks, n.lookAtReminders, n.lookAtDeadLetters, n.lookAtAudit, n.lookAtMedia, n.lookAtProduct,
	} {
		if err := look(ctx, c); err != nil {
			return wire.Explanation{}, fmt.Errorf("explain %s: %w", id, err)
		}
	}
	c.fact("verdict", "for "+viewerName(viewer), c.verdict().String())
	c.fact("event", "log", "not looked up: the log is read in order, and no step of the engine depends on it")
	return wire.Explanation{
		ID: id, Sentences: c.sentences(), Verdict: c.verdict().String(), At: at, Viewer: viewerName(viewer), Facts: c.facts,
	}, nil
}

// inquiry is what is known about an item when it is explained.
type inquiry struct {
	id     mayfly.ID
	viewer mayfly.Viewer
	at     mayfly.Instant

	found    bool
	item     mayfly.Item
	body     store.FoundBody
	relation mayfly.Relation // of its owner to the viewer
	restored bool            // it is in the restored set
	erased   bool            // its owner's account is erased
	behind   []string        // walks that should have passed it and have not
	dead     []string        // steps that were given up
	lost     []string        // media that are not where the row says

	facts []wire.Fact
}

func (c *inquiry) fact(about, name string, value any) {
	c.facts = append(c.facts, wire.Fact{About: about, Name: name, Value: fmt.Sprint(value)})
}

// verdict is the gate's own, by what was looked up.
func (c *inquiry) verdict() gate.Verdict {
	item := c.item
	if !c.found {
		item = mayfly.Item{ID: c.id, State: mayfly.Deleted} // the gate says the same of what is not there
	}
	return gate.Judge(item, c.viewer, c.relation, c.at)
}

func viewerName(v mayfly.Viewer) string {
	switch {
	case v.Moderator():
		return "a moderator"
	case v.User().IsZero():
		return "an anonymous viewer"
	default:
		return "user " + v.User().String()
	}
}

func (n *Node) lookAtRow(ctx context.Context, c *inquiry) error {
	c.fact("id", "short", c.id.Short())
	c.fact("id", "born", c.id.Birth())
	c.fact("id", "lifetime", c.id.Lifetime())
	c.fact("id", "deadline", c.id.Deadline())
	c.fact("id", "shard", c.id.Shard())
	c.fact("id", "trace", c.id.Trace())
	rows, err := n.set.Ledger.Get(ctx, c.id)
	if err != nil {
		return err
	}
	bodies, err := n.set.Ledger.Body(ctx, c.id)
	if err != nil {
		return err
	}
	c.found, c.item, c.body = rows[0].Found, rows[0].Item, bodies[0]
	if !c.found {
		c.fact("row", "found", false)
		return nil
	}
	c.fact("row", "sort", c.item.Product)
	c.fact("row", "state", c.item.Shown(c.at))
	c.fact("row", "owner", c.item.Owner)
	c.fact("row", "audience", c.item.Audience)
	c.fact("row", "fate", c.item.Fate)
	c.fact("row", "generation", c.item.Generation)
	c.fact("row", "nonce", fmt.Sprintf("%016x", uint64(c.item.Nonce)))
	c.fact("row", "run", fmt.Sprintf("%016x", uint64(c.item.Run)))
	c.fact("row", "cause", c.item.Cause)
	c.fact("row", "changed", c.item.Changed)
	c.fact("row", "held", c.item.Held)
	c.fact("row", "serves_until", c.item.ServesUntil)
	c.fact("row", "media", c.item.Media)
	c.fact("row", "body", c.body.Found)
	return nil
}

func (n *Node) lookAtRelation(ctx context.Context, c *inquiry) error {
	if !c.found || c.viewer.User().IsZero() || c.item.Owner.IsZero() || n.o.Gate.Relations == nil {
		return nil
	}
	relation, err := n.o.Gate.Relations(ctx, c.item.Owner, c.viewer.User())
	if err != nil {
		return fmt.Errorf("relations: %w", err)
	}
	c.relation = relation
	c.fact("viewer", "author", c.viewer.Wrote(c.item))
	c.fact("viewer", "follower", relation.Has(mayfly.Follower))
	c.fact("viewer", "close_friend", relation.Has(mayfly.CloseFriend))
	c.fact("viewer", "blocked", relation.Has(mayfly.Blocked))
	return nil
}

// lookAtIndexes looks at the rows beside the item's that are about it.
func (n *Node) lookAtIndexes(ctx context.Context, c *inquiry) error {
	get := func(t store.Table, key store.Key) (bool, error) {
		found, err := n.set.Rows.Get(ctx, t, key)
		return err == nil && found[0] != nil, err
	}
	var err error
	if c.restored, err = get(engine.Restored, engine.RestoredKey(c.id)); err != nil {
		return err
	}
	c.fact("restored", "in the set", c.restored)
	if !c.found || c.item.Owner.IsZero() {
		return nil
	}
	indexed, err := get(engine.Owners, engine.OwnerKey(c.item.Owner, c.id))
	if err != nil {
		return err
	}
	c.fact("owner", "index names it", indexed)
	if c.erased, err = get(engine.Erased, engine.ErasedKey(c.item.Owner)); err != nil {
		return err
	}
	c.fact("owner", "account erased", c.erased)
	return nil
}
