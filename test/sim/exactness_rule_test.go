package sim

import (
	"errors"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/gate"
)

func outcome(o gate.Opened, err error) string {
	switch {
	case err == nil:
		return o.Verdict.String()
	case errors.Is(err, mayfly.Gone):
		return "gone"
	case errors.Is(err, mayfly.NotFound):
		return "not found"
	default:
		return err.Error()
	}
}

// expected is what a viewer gets of an item, in plain integers. An ended item whose
// fate is purge is refused to every viewer, except to moderators while it is held,
// whether the sweep has come or not (ST2, C2, L16).
func expected(r *resident, who guest, deleted bool, now int64) string {
	past := r.deadline != 0 && now >= r.deadline
	ended := past && now >= r.servesUntil
	author := !who.user.IsZero() && who.user == r.owner
	var sees bool
	switch {
	case deleted:
	case ended && r.purged && !r.held:
	case who.moderator:
		sees = true
	case r.held:
	case author:
		sees = true
	case ended:
	case r.owner.IsZero(): // no user follows it or is blocked by it
		sees = r.audience == mayfly.Everyone
	case who.blocked:
	case r.audience == mayfly.Everyone:
		sees = true
	case r.audience == mayfly.Followers:
		sees = who.follows
	case r.audience == mayfly.CloseFriends:
		sees = who.close
	}
	switch {
	case sees && ended:
		return "archived"
	case sees:
		return "serve"
	case past:
		return "gone"
	default:
		return "not found"
	}
}
