package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// lookAtWalks looks at the item's pigeonhole and how far each walk has come there.
func (n *Node) lookAtWalks(ctx context.Context, c *inquiry) error {
	if !c.id.Expires() {
		c.fact("pigeonhole", "none", "it never expires: no walk passes it")
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
		done := mark.At >= c.id.Deadline() // a watermark stands at a deadline, whatever the walk's offset
		c.fact("walk", s.walk.Name, passed(done, mark.At, due))
		if !done && due.Add(walkLate) <= now {
			c.behind = append(c.behind, s.walk.Name)
		}
	}
	holder, until, err := walk.LeaseHolder(ctx, n.set.Rows, c.id.Shard())
	if err != nil {
		return err
	}
	if holder == "" {
		holder = "nobody"
	}
	c.fact("lease", fmt.Sprintf("of shard %d", c.id.Shard()), fmt.Sprintf("%s until %s", holder, until))
	return nil
}

// walkLate is how far behind its due instant a watermark is worth a sentence: it
// trails by the settling time, and a walk may take its time within its budget.
const walkLate = 5 * time.Minute

func passed(done bool, mark, due mayfly.Instant) string {
	if done {
		return fmt.Sprintf("passed: it was due at %s; done is every deadline up to %s", due, mark)
	}
	return fmt.Sprintf("not yet: it is due at %s; done is every deadline up to %s", due, mark)
}

// remindersRead is how many reminders of one minute are looked through.
const remindersRead = 2_000

// lookAtReminders looks where the engine writes reminders for a row like this
// one: reminders lie by the minute they are due in, not by item.
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
				c.fact("reminder", r.Step.String(), fmt.Sprintf("due at %s, tried %d times: %s", r.Due, r.Tries, r.Reason))
			}
		}
	}
	c.fact("reminder", "looked for", fmt.Sprintf("in %d minutes where the engine would have written one", len(minutes)))
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
		c.fact("dead letter", step.String(), fmt.Sprintf("given up at %s after %d tries: %s", d.Since, d.Tries, why))
	}
	return nil
}

// auditShown is how many records of an item are shown, the newest.
const auditShown = 20

func (n *Node) lookAtAudit(ctx context.Context, c *inquiry) error {
	page, err := audit.List(ctx, n.set.Rows, audit.Filter{Item: c.id, From: c.id.Birth()}, audit.Place{}, auditShown)
	if err != nil {
		return err
	}
	for _, r := range page.Records {
		c.fact("audit", r.Ref.String(), fmt.Sprintf("%s: %s by %s (%s), because: %s", r.At, r.Entry.Verb, r.Entry.Actor, r.Entry.Outcome, r.Entry.Reason))
	}
	if page.More {
		c.fact("audit", "more", "there may be older records: mayfly audit list")
	}
	return nil
}
