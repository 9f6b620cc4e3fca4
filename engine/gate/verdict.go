package gate

import "github.com/mayflyhq/mayfly"

// Verdict is what a viewer gets of an item.
type Verdict uint8

// The verdicts.
const (
	Serve    Verdict = iota + 1 // the item, with everything about it
	Archived                    // past its end: for its author and moderators
	Gone                        // refused, and the id's deadline has passed
	Hidden                      // refused before that: as if it never was
)

// String is the verdict's word, as metrics and explain say it.
func (v Verdict) String() string {
	switch v {
	case Serve:
		return "serve"
	case Archived:
		return "archived"
	case Gone:
		return "gone"
	case Hidden:
		return "hidden"
	default:
		return "none"
	}
}

func (v Verdict) shows() bool { return v == Serve || v == Archived }

// Judge is the one visibility function (C2): what viewer, to whom the owner
// stands in relation, gets of item at now. Expiry is arithmetic on the id and
// serves_until only: a sweep that is early, late or stopped changes no verdict
// (I4, I5).
func Judge(item mayfly.Item, viewer mayfly.Viewer, relation mayfly.Relation, now mayfly.Instant) Verdict {
	ended := item.EndedAt(now)
	switch {
	case item.State == mayfly.Deleted: // I7: for everyone
		return refused(item.ID, now)
	case viewer.Moderator():
	case item.Held: // L16: from its author too
		return refused(item.ID, now)
	case viewer.Wrote(item):
	case ended || !permitted(item.Audience, viewer, relation):
		return refused(item.ID, now)
	}
	if ended {
		return Archived
	}
	return Serve
}

// refused is the verdict for whoever gets nothing, whatever the reason: the id
// alone decides between the two, so that a refusal tells nothing (ST2).
func refused(id mayfly.ID, now mayfly.Instant) Verdict {
	if id.ExpiredAt(now) {
		return Gone
	}
	return Hidden
}

// permitted denies by default: an audience that it does not know has nobody in it.
func permitted(audience mayfly.Audience, viewer mayfly.Viewer, relation mayfly.Relation) bool {
	if relation.Has(mayfly.Blocked) {
		return false
	}
	switch audience {
	case mayfly.Everyone:
		return true
	case mayfly.Followers:
		return !viewer.User().IsZero() && relation.Has(mayfly.Follower)
	case mayfly.CloseFriends:
		return !viewer.User().IsZero() && relation.Has(mayfly.CloseFriend)
	default:
		return false
	}
}
