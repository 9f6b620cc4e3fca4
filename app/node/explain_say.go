package node

import (
	"fmt"
	"strings"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/gate"
)

// sentences are the answer for people, most important first. They are a pure
// function of what was looked up.
func (c *inquiry) sentences() []string {
	all := []string{c.sayVerdict(), c.sayReason()}
	if c.found {
		all = append(all, c.sayRow())
	}
	if c.found && c.restored && c.at < c.item.End() {
		all = append(all, fmt.Sprintf("Support has put it back: it is in the restored set and serves until %s.", c.item.End()))
	}
	if len(c.behind) > 0 {
		all = append(all, fmt.Sprintf("These walks should have passed it and have not: %s. That changes nothing about who sees it.", strings.Join(c.behind, ", ")))
	}
	if len(c.dead) > 0 {
		all = append(all, fmt.Sprintf("These steps were given up after their last try: %s. mayfly dlq retry puts them on their way again.", strings.Join(c.dead, ", ")))
	}
	if len(c.lost) > 0 {
		all = append(all, fmt.Sprintf("In neither tier is there a copy of %s: only a backup can have it.", strings.Join(c.lost, ", ")))
	}
	return all
}

// what it is, in a word.
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
		return fmt.Sprintf("This %s is gone for %s since %s: the answer is 410, the same whether it ever was or not.", c.word(), who, since)
	default:
		return fmt.Sprintf("This %s is not there for %s at %s: the answer is 404, the same whatever the reason.", c.word(), who, when)
	}
}

func endOf(item mayfly.Item) string {
	if !item.ID.Expires() {
		return "somebody deletes it"
	}
	return item.End().String()
}

// says is what the id alone tells.
func (c *inquiry) says() string {
	if !c.id.Expires() {
		return fmt.Sprintf("born %s, never to expire", c.id.Birth())
	}
	return fmt.Sprintf("born %s, lifetime %s, deadline %s", c.id.Birth(), c.id.Lifetime(), c.id.Deadline())
}

func (c *inquiry) sayReason() string {
	switch {
	case !c.found && c.id.Birth() > c.at:
		return fmt.Sprintf("There is no row of it, and its id says that it is born later than that: %s.", c.says())
	case !c.found:
		return fmt.Sprintf("There is no row of it: it never was, its birth was abandoned, or it was deleted and its tombstone has left. Its id says: %s.", c.says())
	case c.item.State == mayfly.Deleted:
		return fmt.Sprintf("It is deleted, by %s, since %s; nobody sees it again.", c.item.Cause, c.item.Changed)
	case c.item.EndedAt(c.at) && c.item.Fate == mayfly.Purge && !c.item.Held:
		return fmt.Sprintf("Its fate is purge and its end has passed, so that no viewer gets it, whether the sweep has come or not: %s.", c.says())
	case c.viewer.Moderator() && c.item.Held:
		return "It is held: moderators see it, and nobody else, its author included."
	case c.item.Held:
		return "It is held: hidden from everyone but moderators, its author included, until it is released."
	case c.viewer.Moderator():
		return fmt.Sprintf("Moderators see what is not deleted. Its id says: %s.", c.says())
	case c.viewer.Wrote(c.item):
		return fmt.Sprintf("It is the viewer's own. Its id says: %s.", c.says())
	case c.item.EndedAt(c.at):
		return fmt.Sprintf("Its id says so, and no job is needed for it: %s.", c.says())
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
