package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/gate"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// Explain returns why viewer sees an item at an instant, or does not: sentences
// first, then the facts that they are based on. It is for operators, because it says
// what no viewer may know. An id that never existed is explained too. The row is
// judged as it is now, whatever the instant (ST12).
func (n *Node) Explain(ctx context.Context, id mayfly.ID, viewer mayfly.Viewer, at mayfly.Instant) (wire.Explanation, error) {
	if !id.Valid() {
		return wire.Explanation{}, mayfly.Errorf(mayfly.Invalid, "explain: %s is not an id", id).WithHint("an id is a UUID or its 22 characters of base62")
	}
	c := &inquiry{id: id, viewer: viewer, at: at}
	for _, look := range []func(context.Context, *inquiry) error{
		n.lookAtRow, n.lookAtRelation, n.lookAtIndexes, n.lookAtWalks, n.lookAtReminders, n.lookAtDeadLetters, n.lookAtAudit, n.lookAtMedia, n.lookAtEdge, n.lookAtProduct,
	} {
		if err := look(ctx, c); err != nil {
			return wire.Explanation{}, fmt.Errorf("explain %s: %w", id, err)
		}
	}
	c.fact("verdict", "for "+viewerName(viewer), c.verdict().String())
	c.fact("event", "log", "not searched: the log can only be read in order, and no step of the engine depends on it")
	return wire.Explanation{
		ID: id, Sentences: c.sentences(), Verdict: c.verdict().String(), At: at, Viewer: viewerName(viewer), Facts: c.facts,
	}, nil
}

// inquiry holds what was looked up about an item.
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
	behind   []string        // walks that should have processed it and have not
	dead     []string        // steps that were given up
	lost     []string        // media that are not where the row says
	cached   bool            // the edge may still have an answer about it: a purge is not verified

	facts []wire.Fact
}

func (c *inquiry) fact(about, name string, value any) {
	c.facts = append(c.facts, wire.Fact{About: about, Name: name, Value: fmt.Sprint(value)})
}

// verdict returns the gate's verdict on what was looked up.
func (c *inquiry) verdict() gate.Verdict {
	item := c.item
	if !c.found {
		item = mayfly.Item{ID: c.id, State: mayfly.Deleted} // the gate gives the same verdict on an item that does not exist
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
	c.fact("row", "product", c.item.Product)
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
	if !c.found || c.item.Owner.IsZero() || n.o.Gate.Relations == nil {
		return nil
	}
	relations, err := n.o.Gate.Relations(ctx, c.viewer.User(), c.item.Owner)
	if err != nil {
		return fmt.Errorf("relations: %w", err)
	}
	relation := relations[0]
	c.relation = relation
	c.fact("owner", "private", relation.Has(mayfly.Private))
	if c.viewer.User().IsZero() {
		return nil
	}
	c.fact("viewer", "author", c.viewer.Wrote(c.item))
	c.fact("viewer", "follower", relation.Has(mayfly.Follower))
	c.fact("viewer", "close_friend", relation.Has(mayfly.CloseFriend))
	c.fact("viewer", "blocked", relation.Has(mayfly.Blocked))
	return nil
}

// lookAtIndexes looks at the rows of other tables that name the item.
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

// lookAtMedia looks in both tiers for every object that the item can have, under the
// keys that its row names.
func (n *Node) lookAtMedia(ctx context.Context, c *inquiry) error {
	if !c.found || c.item.Media == 0 {
		return nil
	}
	for m := range int(c.item.Media) {
		present := 0
		for _, tier := range n.tiersOf(c.item) {
			is, err := c.stat(ctx, tier, fmt.Sprintf("medium %d", m), m)
			if err != nil {
				return err
			}
			present += is
		}
		if present == 0 && c.item.State != mayfly.Deleted {
			c.lost = append(c.lost, fmt.Sprintf("medium %d", m))
		}
	}
	for _, o := range c.body.Body.Renditions() {
		for _, tier := range n.tiersOf(c.item) {
			if _, err := c.stat(ctx, tier, fmt.Sprintf("rendition %d", o), o); err != nil {
				return err
			}
		}
	}
	return nil
}

// tierOf is a tier with the generation under which the row names a copy there.
type tierOf struct {
	name  string
	blobs store.Blobs
	under mayfly.Generation
}

func (n *Node) tiersOf(item mayfly.Item) []tierOf {
	return []tierOf{{"hot", n.set.Hot, item.Keys.Hot}, {"cold", n.set.Cold, item.Keys.Cold}}
}

func (c *inquiry) stat(ctx context.Context, t tierOf, name string, object int) (present int, err error) {
	if t.under == 0 {
		c.fact("media", name, t.name+": the row names no copy")
		return 0, nil
	}
	key := c.item.MediaKey(t.under, object)
	stored, err := t.blobs.Stat(ctx, key)
	switch {
	case errors.Is(err, mayfly.NotFound):
		c.fact("media", name, fmt.Sprintf("%s: %s is not there", t.name, key))
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("%s of %s: %w", name, t.name, err)
	}
	c.fact("media", name, fmt.Sprintf("%s: %s has %d bytes", t.name, key, stored.Size))
	return 1, nil
}

// lookAtWalks looks at the pigeonhole of the item, and how far each walk has
// come there.
func (n *Node) lookAtWalks(ctx context.Context, c *inquiry) error {
	if !c.id.Expires() {
		c.fact("pigeonhole", "none", "it never expires, so no walk processes it")
		return nil
	}
	c.fact("pigeonhole", "minute", c.id.Minute().Start())
	now := n.clock.Read().Steady
	origin, err := walk.Origin(ctx, n.set.Rows, now)
	if err != nil {
		return err
	}
	shard := walk.NewShard(n.set.Rows, c.id.Shard(), "explain", time.Second, origin)
	for _, s := range n.steps() {
		mark, err := walk.LoadWatermark(ctx, n.set.Rows, s.walk.Name, shard)
		if err != nil {
			return fmt.Errorf("watermark of %s: %w", s.walk.Name, err)
		}
		due := c.id.Deadline().Add(s.walk.Offset)
		done := mark.At >= c.id.Deadline() // a watermark is a deadline, whatever the walk's offset
		c.fact("walk", s.walk.Name, passed(done, mark.At, due))
		if !done && due.Add(walkLate) <= now {
			c.behind = append(c.behind, s.walk.Name)
		}
	}
	holder, until, err := walk.LeaseHolder(ctx, n.set.Rows, c.id.Shard())
	if err != nil {
		return err
	}
	held := "no node holds it"
	if holder != "" {
		held = fmt.Sprintf("%s until %s", holder, until)
	}
	c.fact("lease", fmt.Sprintf("of shard %d", c.id.Shard()), held)
	return nil
}

// walkLate is how late a walk is before a sentence says so: a watermark is always
// behind by the settling time, and a walk may be slow within its budget.
const walkLate = 5 * time.Minute

func passed(done bool, mark, due mayfly.Instant) string {
	if done {
		return fmt.Sprintf("done: it was due at %s; every deadline up to %s is processed", due, mark)
	}
	return fmt.Sprintf("not yet: it is due at %s; every deadline up to %s is processed", due, mark)
}

// remindersRead is how many reminders of one minute are searched.
const remindersRead = 2_000

// lookAtReminders looks in the minutes in which the engine writes reminders for such
// a row: reminders are stored by the minute they are due in, not by item.
func (n *Node) lookAtReminders(ctx context.Context, c *inquiry) error {
	minutes := n.reminderMinutes(c)
	for _, minute := range minutes {
		rows, err := n.set.Rows.Range(ctx, remind.Reminders, store.Range{Partition: remind.Partition(minute, c.id.Shard()), Limit: remindersRead})
		if err != nil {
			return fmt.Errorf("reminders: %w", err)
		}
		for _, row := range rows {
			r, err := remind.Read(row)
			if err != nil {
				return err
			}
			if r.ID == c.id {
				c.fact("reminder", r.Step.String(), fmt.Sprintf("due at %s after %d attempts: %s", r.Due, r.Tries, r.Reason))
			}
		}
	}
	c.fact("reminder", "searched", fmt.Sprintf("%d minutes in which the engine would have written one", len(minutes)))
	return nil
}

func (n *Node) reminderMinutes(c *inquiry) []mayfly.Minute {
	soon := max(n.o.Erase.RemindAfter, n.o.Intake.RemindAfter, mayfly.DefaultRemindAfter)
	instants := []mayfly.Instant{c.id.Birth().Add(soon), c.id.Deadline(), c.id.Deadline().Add(soon)}
	if c.found {
		instants = append(instants, c.item.Changed.Add(soon), n.o.Tombstones.Due(c.item.Changed), c.item.ServesUntil, c.item.ServesUntil.Add(soon))
	}
	var minutes []mayfly.Minute
	for _, i := range instants {
		if i > 0 {
			minutes = append(minutes, i.Minute(), i.Minute()+1)
		}
	}
	slices.Sort(minutes)
	return slices.Compact(minutes)
}

func (n *Node) lookAtDeadLetters(ctx context.Context, c *inquiry) error {
	for _, step := range remind.Steps() {
		d, err := remind.DeadLetter(ctx, n.set.Rows, c.id, step)
		if errors.Is(err, mayfly.NotFound) {
			continue
		}
		if err != nil {
			return err
		}
		why := d.Reason
		if len(d.History) > 0 {
			why = d.History[len(d.History)-1].Reason
		}
		c.dead = append(c.dead, step.String())
		c.fact("dead letter", step.String(), fmt.Sprintf("given up at %s after %d attempts: %s", d.Since, d.Tries, why))
	}
	return nil
}

// auditShown is how many audit records of an item are shown, the newest ones.
const auditShown = 20

func (n *Node) lookAtAudit(ctx context.Context, c *inquiry) error {
	page, err := audit.List(ctx, n.set.Rows, audit.Filter{Item: c.id, From: c.id.Birth()}, audit.Place{}, auditShown)
	if err != nil {
		return err
	}
	for _, r := range page.Records {
		c.fact("audit", r.Ref.String(), fmt.Sprintf("%s: %s by %s (%s), reason: %s", r.At, r.Entry.Verb, r.Entry.Actor, r.Entry.Outcome, r.Entry.Reason))
	}
	if page.More {
		c.fact("audit", "more", "there may be older records: mayfly audit list")
	}
	return nil
}
