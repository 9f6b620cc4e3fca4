package gate

import "github.com/mayflyhq/mayfly"

// Verdict says what a viewer gets of an item.
type Verdict uint8

// The verdicts.
const (
	Serve    Verdict = iota + 1 // the item, with everything about it
	Archived                    // past its end: for its author and moderators
	Gone                        // refused; the id's deadline has passed
	Hidden                      // refused before the deadline, as if the item did not exist
)

// String returns the verdict as metrics and explain write it.
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

// Judge is the one visibility function: it says what viewer gets of item at now,
// when the owner has the given relation to the viewer. Expiry is arithmetic on
// the id and serves_until, and what follows it is the item's fate: an ended item
// of fate purge is refused to its author too, whether the sweep has deleted its
// row or not. So a sweep that is early, late or stopped changes no verdict. While
// such an item is held, the sweep keeps it and moderators see it (C2, I4, I5, L16).
func Judge(item mayfly.Item, viewer mayfly.Viewer, relation mayfly.Relation, now mayfly.Instant) Verdict {
	ended := item.EndedAt(now)
	switch {
	case item.State == mayfly.Deleted: // for every viewer (I7)
		return refused(item.ID, now)
	case ended && item.Fate == mayfly.Purge && !item.Held: // as if the sweep had deleted it
		return refused(item.ID, now)
	case viewer.Moderator():
	case item.Held: // from its author too (L16)
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

// refused is the verdict for a viewer that gets nothing. The id alone decides
// between Gone and Hidden, so that a refusal does not tell its reason (ST2).
func refused(id mayfly.ID, now mayfly.Instant) Verdict {
	if id.ExpiredAt(now) {
		return Gone
	}
	return Hidden
}

// permitted says whether viewer belongs to audience. Of a private account everyone
// is followers. It denies by default: no viewer belongs to an unknown audience.
func permitted(audience mayfly.Audience, viewer mayfly.Viewer, relation mayfly.Relation) bool {
	if relation.Has(mayfly.Blocked) {
		return false
	}
	switch audience {
	case mayfly.Everyone:
		return !relation.Has(mayfly.Private) || relation.Has(mayfly.Follower)
	case mayfly.Followers:
		return !viewer.User().IsZero() && relation.Has(mayfly.Follower)
	case mayfly.CloseFriends:
		return !viewer.User().IsZero() && relation.Has(mayfly.CloseFriend)
	default:
		return false
	}
}
