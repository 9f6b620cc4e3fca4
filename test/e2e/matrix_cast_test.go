package e2e

import (
	"fmt"
	"net/http"

	"github.com/mayflyhq/mayfly"
)

// role is who asks, as the matrix knows them (C2).
type role string

const (
	owner              role = "owner"
	follower           role = "follower"
	exFollower         role = "ex-follower"
	closeFriend        role = "close friend"
	blocked            role = "blocked"
	stranger           role = "stranger"
	anonymous          role = "anonymous"
	serviceAlone       role = "service alone"
	serviceForOwner    role = "service for the owner"
	serviceForFollower role = "service for a follower"
	moderator          role = "moderator"
	moderatorAlone     role = "moderator who is no user"
	admin              role = "admin"
)

func roles() []role {
	return []role{owner, follower, exFollower, closeFriend, blocked, stranger, anonymous, serviceAlone, serviceForOwner, serviceForFollower, moderator, moderatorAlone, admin}
}

// state is where an item is in its life, as the matrix knows it.
type state string

const (
	live       state = "live"       // a millisecond before its deadline
	due        state = "due"        // at its deadline, not swept
	expired    state = "expired"    // swept
	archiving  state = "archiving"  // an archive worker has claimed it
	cold       state = "cold"       // archived, hot erased
	restored   state = "restored"   // a millisecond before serves_until
	ended      state = "ended"      // restored, at serves_until
	held       state = "held"       // a millisecond before its deadline
	heldLater  state = "held later" // past its deadline
	deleted    state = "deleted"    // a millisecond before its deadline
	deletedDue state = "deleted, due"
	deletedOld state = "deleted later"
	absent     state = "never was"        // with a deadline a millisecond ahead
	absentDue  state = "never was, due"   // with a deadline now
	absentOld  state = "never was, later" // with a deadline long ago
)

func states() []state {
	return []state{live, due, expired, archiving, cold, restored, ended, held, heldLater, deleted, deletedDue, deletedOld, absent, absentDue, absentOld}
}

// author is the user who publishes what has an audience: one for each, so that
// no list of theirs is longer than a page.
func author(s state, audience string) string { return fmt.Sprintf("matrix.%s.%s", audience, s) }

// named is the user behind a role.
func named(r role) string { return "matrix." + string(r) }

func userNamed(name string) mayfly.UserID { return mayfly.HomeUserOf(issuer, name) }

// as are the headers of a user with a scope.
func (m *matrix) as(user, scope string) http.Header {
	m.Helper()
	bearer, err := m.bearer(user, scope)
	if err != nil {
		m.Fatal(err)
	}
	return http.Header{"Authorization": {"Bearer " + bearer}}
}

// header are the headers of a role, towards the author of an item.
func (m *matrix) header(r role, s *specimen) http.Header {
	m.Helper()
	switch r {
	case anonymous:
		return http.Header{}
	case owner:
		return m.as(s.author, "user")
	case moderator:
		return m.as(named(r), "moderator")
	case moderatorAlone:
		return m.as("", "moderator")
	case admin:
		return m.as("", "admin")
	case serviceAlone, serviceForOwner, serviceForFollower:
		h := m.as("", "service")
		if r == serviceForOwner {
			h.Set("Mayfly-User", userNamed(s.author).String())
		}
		if r == serviceForFollower {
			h.Set("Mayfly-User", userNamed(named(follower)).String())
		}
		return h
	}
	return m.as(named(r), "user")
}

// must asks, and wants a status.
func (m *matrix) must(r request, status int) answer {
	m.Helper()
	a, err := m.ask(r)
	if err != nil {
		m.Fatal(err)
	}
	if a.status != status {
		m.Fatalf("%s %s: %d, not %d: %s", r.method, r.target, a.status, status, a.body)
	}
	return a
}
