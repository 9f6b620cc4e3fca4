package node

import (
	"fmt"
	"strings"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/gate"
)

// sentences returns the answer for people, the most important sentence first. It is
// a pure function of what was looked up.
func (c *inquiry) sentences() []string {
	all := []string{c.sayVerdict(), c.sayReason()}
	if c.found {
		all = append(all, c.sayRow())
	}
	if c.found && c.restored && c.at < c.item.End() {
		all = append(all, fmt.Sprintf("Support has restored it: it is in the restored set and serves until %s.", c.item.End()))
	}
	if len(c.behind) > 0 {
		all = append(all, fmt.Sprintf("These walks should have processed it and have not: %s. That does not change who sees it.", strings.Join(c.behind, ", ")))
	}
	if len(c.dead) > 0 {
		all = append(all, fmt.Sprintf("These steps were given up after their last attempt: %s. mayfly dlq retry schedules them again.", strings.Join(c.dead, ", ")))
	}
	if len(c.lost) > 0 {
		all = append(all, fmt.Sprintf("Neither tier has a copy of %s: only a backup can have it.", strings.Join(c.lost, ", ")))
	}
	if c.cached {
		all = append(all, "A purge of the edge is not verified: a cache may still answer with it, for five minutes after its end at most. mayfly purges lists these.")
	}
	return all
}

// word returns the name of the item's product.
func (c *inquiry) word() string {
	if c.found && c.item.Product != mayfly.Story {
		return c.item.Product.String()
	}
	return "story"
}

func (c *inquiry) sayVerdict() string {
	who, when := viewerName(c.viewer), c.at.String()
	switch c.verdict() {
	case gate.Serve:
		return fmt.Sprintf("This %s is visible to %s at %s: it serves until %s.", c.word(), who, when, endOf(c.item))
	case gate.Archived:
		return fmt.Sprintf("This %s is in the archive for %s at %s: it stopped serving at %s, and only its author and moderators still see it.", c.word(), who, when, c.item.End())
	case gate.Gone:
		since := max(c.id.Deadline(), c.item.ServesUntil)
		if !c.found || since > c.at {
			since = c.id.Deadline()
		}
		return fmt.Sprintf("This %s is gone for %s since %s: the answer is 410, the same whether it ever existed or not.", c.word(), who, since)
	default:
		return fmt.Sprintf("This %s is hidden from %s at %s: the answer is 404, the same whatever the reason.", c.word(), who, when)
	}
}

func endOf(item mayfly.Item) string {
	if !item.ID.Expires() {
		return "it is deleted"
	}
	return item.End().String()
}

// says returns what the id alone says.
func (c *inquiry) says() string {
	if !c.id.Expires() {
		return fmt.Sprintf("born %s, never expires", c.id.Birth())
	}
	return fmt.Sprintf("born %s, lifetime %s, deadline %s", c.id.Birth(), c.id.Lifetime(), c.id.Deadline())
}

func (c *inquiry) sayReason() string {
	switch {
	case !c.found && c.id.Birth() > c.at:
		return fmt.Sprintf("It has no row, and its id says that it is published later than that: %s.", c.says())
	case !c.found:
		return fmt.Sprintf("It has no row: it never existed, its upload was not finished, or it was deleted and its tombstone has been removed. Its id says: %s.", c.says())
	case c.item.State == mayfly.Deleted:
		return fmt.Sprintf("It was deleted at %[2]s, by %[1]s, and no viewer sees it again.", c.item.Cause, c.item.Changed)
	case c.item.EndedAt(c.at) && c.item.Fate == mayfly.Purge && !c.item.Held:
		return fmt.Sprintf("Its fate is purge and its end has passed, so that no viewer sees it, whether the sweep has processed it or not: %s.", c.says())
	case c.viewer.Moderator() && c.item.Held:
		return "It is held: only moderators see it, not even its author."
	case c.item.Held:
		return "It is held: until it is released only moderators see it, not even its author."
	case c.viewer.Moderator():
		return fmt.Sprintf("Moderators see every item that is not deleted. Its id says: %s.", c.says())
	case c.viewer.Wrote(c.item):
		return fmt.Sprintf("The viewer is its author. Its id says: %s.", c.says())
	case c.item.EndedAt(c.at):
		return fmt.Sprintf("Its deadline has passed, which its id alone says: %s.", c.says())
	case c.relation.Has(mayfly.Blocked):
		return "Its author has blocked this viewer."
	case c.verdict() == gate.Serve:
		return fmt.Sprintf("It is for %s, and the viewer is among them. Its id says: %s.", audienceName(c.item.Audience), c.says())
	default:
		return fmt.Sprintf("It is for %s, and the viewer is not among them. Its id says: %s.", audienceName(c.item.Audience), c.says())
	}
}

func audienceName(a mayfly.Audience) string {
	return strings.ReplaceAll(a.String(), "_", " ")
}

func (c *inquiry) sayRow() string {
	where := ""
	switch {
	case c.item.Media == 0 || c.item.State == mayfly.Deleted:
	case c.item.Keys.Hot != 0 && c.item.Keys.Cold != 0:
		where = " Its media are in both tiers."
	case c.item.Keys.Cold != 0:
		where = " Its media are cold."
	default:
		where = " Its media are hot."
	}
	return fmt.Sprintf("Its row is %s, generation %d, since %s.%s", c.item.Shown(c.at), c.item.Generation, c.item.Changed, where)
}
