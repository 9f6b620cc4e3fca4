package e2e

import "net/http"

// This file is the oracle: what SPEC says an answer must be, read off ST2, ST3,
// ST5, ST6, ST8, ST11, ST12, C1, C2, L16 and I4–I7, and off no code.

// serves says whether an item in the state serves.
func (s state) serves() bool { return s == live || s == restored || s == held }

// past says whether the deadline that the id tells has passed.
func (s state) past() bool {
	return s != live && s != held && s != deleted && s != absent
}

func (s state) isDeleted() bool { return s == deleted || s == deletedDue || s == deletedOld }
func (s state) isAbsent() bool  { return s == absent || s == absentDue || s == absentOld }
func (s state) isHeld() bool    { return s == held || s == heldLater }

// isOwner says whether a role is the author: a service is who it acts for (C2).
func (r role) isOwner() bool { return r == owner || r == serviceForOwner }

// isUser says whether a role is a user at all.
func (r role) isUser() bool {
	return r != anonymous && r != serviceAlone && r != moderatorAlone && r != admin
}

// isModerator says whether a role sees with a moderator's eyes.
func (r role) isModerator() bool { return r == moderator || r == moderatorAlone }

// within says whether a role belongs to an audience. A service alone and an
// administrator as such see what an anonymous viewer sees (C2); a block counts
// more than anything (ST10).
func (r role) within(audience string) bool {
	switch audience {
	case "everyone":
		return r != blocked
	case "followers":
		return r == follower || r == serviceForFollower
	default:
		return r == closeFriend
	}
}

// sees is the one visibility function as SPEC says it.
func sees(r role, s state, audience string) bool {
	switch {
	case s.isDeleted(), s.isAbsent():
		return false
	case r.isModerator():
		return true
	case s.isHeld(): // L16: its author included
		return false
	case r.isOwner():
		return true
	default:
		return s.serves() && r.within(audience)
	}
}

// refusal returns the status of a refusal: the id alone decides which (ST2).
func (s state) refusal() int {
	if s.past() {
		return http.StatusGone
	}
	return http.StatusNotFound
}

// asUser is what a route that only users call answers to who is none: 401
// without a token, 403 with one that names no user; 0 to a user.
func (r role) asUser() int {
	switch {
	case r == anonymous:
		return http.StatusUnauthorized
	case !r.isUser():
		return http.StatusForbidden
	}
	return 0
}

// expected are the statuses that an operation on an item may answer: one, but
// where SPEC leaves a choice.
func expected(op string, r role, s state, audience string) []int {
	shown := sees(r, s, audience)
	either := func(yes bool, status int) []int {
		if yes {
			return []int{status}
		}
		return []int{s.refusal()}
	}
	switch op {
	case "openStory":
		return either(shown, http.StatusOK)
	case "getMedium", "headMedium": // by token: who has none of a user or a moderator needs a signature
		return either(shown && (r.isUser() || r.isModerator()), http.StatusOK)
	case "viewStory":
		if refused := r.asUser(); refused != 0 {
			return []int{refused}
		}
		return either(shown, http.StatusNoContent)
	case "listViewers":
		if refused := r.asUser(); refused != 0 && !r.isModerator() {
			return []int{refused}
		}
		return either(shown && (r.isOwner() || r.isModerator()), http.StatusOK)
	case "reshareStory":
		if refused := r.asUser(); refused != 0 {
			return []int{refused}
		}
		return either(shown && r.isOwner(), http.StatusCreated)
	case "deleteStory":
		if refused := r.asUser(); refused != 0 {
			return []int{refused}
		}
		if r.isOwner() && s.isDeleted() { // again is as good as once, while it is known whose it was
			return []int{http.StatusNoContent, s.refusal()}
		}
		return either(r.isOwner() && shown, http.StatusNoContent)
	}
	panic("the oracle knows no operation " + op)
}

// inRing says whether an item stands in its author's ring: while it serves, for
// every viewer who may see it (ST4).
func inRing(r role, s state, audience string) bool { return s.serves() && sees(r, s, audience) }

// inTray says whether its author stands in the caller's tray: of those whom the caller
// follows (ST4).
func inTray(r role, s state, audience string) bool {
	return (r == follower || r == serviceForFollower) && inRing(r, s, audience)
}

// inArchive says whether it stands in the caller's archive: own ones that have
// ended (ST6).
func inArchive(r role, s state) bool {
	return r.isOwner() && !s.serves() && sees(r, s, "")
}

// verdict is what explain says of a viewer (ST12).
func verdict(r role, s state, audience string) string {
	switch {
	case !sees(r, s, audience) && s.past():
		return "gone"
	case !sees(r, s, audience):
		return "hidden"
	case s.serves():
		return "serve"
	default:
		return "archived"
	}
}

// counts says whether a role's look counts: a user's, while the item serves, who
// is neither its author nor a moderator (ST8).
func counts(r role, s state, audience string) bool {
	return s.serves() && r.isUser() && !r.isOwner() && !r.isModerator() && sees(r, s, audience)
}
