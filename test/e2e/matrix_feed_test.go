package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/feedapi"
	"github.com/mayflyhq/mayfly/api/wire"
)

// Every route of posts that names one, the author page and home are asked by every role
// for a post in every state: nothing is shown at or after the deadline, to its owner neither
// (C2, I4, I18).
func TestEveryRouteOfPostsIsExactForEveryRoleInEveryState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &matrix{testNode: openNode(t, nodeConfig()), audiences: []string{public}, specimens: map[corner][]*specimen{}, used: map[corner]int{}, rows: map[string]int{}, counts: map[string]int{}}
		defer m.close()
		for _, op := range m.documents {
			if rt := m.route(op); rt.Product == feedapi.Product && (strings.Contains(rt.Pattern, "{") || op.id == "getMyHome") {
				m.operations = append(m.operations, op)
			}
		}
		var deadline mayfly.Instant
		for _, s := range pasteStates() { // those of an item of fate purge
			c := corner{s, public}
			for n := range 4 { // one to read, others for those who may delete
				item := m.post(c, n)
				if deadline == 0 {
					deadline = item.id.Deadline()
				}
				m.specimens[c] = append(m.specimens[c], item)
				if s.isAbsent() {
					item.id = neverWasLike(item.id)
					break
				}
			}
		}
		m.sleepUntil(deadline.Add(-20 * time.Second))
		for c := range m.specimens {
			of := author(c.state, c.audience)
			m.must(request{method: http.MethodPut, target: "/v1/me/blocks/" + userNamed(named(blocked)).String(), header: m.as(of, "user")}, http.StatusNoContent)
			for _, r := range roles() { // a service may set an edge that a block would refuse
				if followsAll(r) {
					m.must(request{method: http.MethodPut, target: "/v1/users/" + userNamed(of).String() + "/followers/" + userNamed(named(r)).String(), header: m.as("", "service")}, http.StatusNoContent)
				}
			}
		}
		m.each(func(s *specimen) {
			m.must(request{method: http.MethodDelete, target: "/v1/posts/" + s.id.String(), header: m.as(s.author, "user")}, http.StatusNoContent)
		}, deleted, deletedDue)
		m.each(m.holds, held, heldLater)
		m.postsAt(deadline-1, live, held, deleted, absent)
		m.postsAt(deadline, due, deletedDue, heldLater, absentDue)
		m.sleepUntil(deadline.Add(walksLook))
		m.each(func(s *specimen) { m.isInState(mayfly.Deleted, s.state) }, expired)
		m.postsAt(deadline.Add(walksLook), expired, heldLater)
		sum := 0
		for _, op := range m.operations {
			if m.rows[op.id] == 0 {
				t.Errorf("%s has no rows", op.id)
			}
			sum += m.rows[op.id]
		}
		m.measured()
		t.Logf("%d rows tried, %d refusals equal to those for ids that never were; LEAK %d, LATE %d, EARLY %d, other %v",
			sum, m.equal, m.counts["LEAK"], m.counts["LATE"], m.counts["EARLY"], m.counts)
		if sum < 900 || m.equal < 300 {
			t.Error("that is little")
		}
	})
}

// followsAll reports whether the user behind a role follows every author.
func followsAll(r role) bool {
	return slices.Contains([]role{follower, closeFriend, blocked, serviceForFollower}, r)
}

func (m *matrix) post(c corner, n int) *specimen {
	m.Helper()
	s := &specimen{state: c.state, audience: c.audience, author: author(c.state, c.audience), secrets: []string{fmt.Sprintf("text %x", fmt.Sprint(c, n))}}
	r := request{method: http.MethodPost, target: "/v1/posts", header: m.as(s.author, "user")}
	if err := r.json(wire.NewPost{Text: s.secrets[0], Lifetime: "10m"}); err != nil {
		m.Fatal(err)
	}
	var out wire.Post
	if err := json.Unmarshal(m.must(r, http.StatusCreated).body, &out); err != nil {
		m.Fatal(err)
	}
	s.id = out.ID
	return s
}

// postsAt asks every operation for posts in some states at one instant.
func (m *matrix) postsAt(instant mayfly.Instant, of ...state) {
	m.Helper()
	m.sleepUntil(instant)
	for _, s := range of {
		for _, op := range m.operations {
			for _, r := range roles() {
				m.rows[op.id]++
				m.askPost(op, r, corner{s, public})
			}
		}
	}
	if now := m.now(); now != instant {
		m.Errorf("it was to be %s all the time, and is %s", instant, now)
	}
}

func (m *matrix) askPost(op operation, r role, c corner) {
	m.Helper()
	item, sees := m.specimens[c][0], seesPaste(r, c.state, c.audience)
	scopes := m.route(op).Scopes
	may := len(scopes) == 0 || holdersOf(scopes)(r)
	if op.id == "deletePost" && may && sees && r.isOwner() {
		m.used[c]++
		item = m.specimens[c][m.used[c]]
	}
	want := row{
		request: request{method: op.method, target: strings.NewReplacer("{id}", item.id.String(), "{user}", userNamed(item.author).String()).Replace(op.path), header: m.header(r, item)},
		wants:   []int{c.state.refusal()},
	}
	switch {
	case !may:
		want.wants, want.support = []int{refusedRole(r)}, true
	case op.id == "listPosts" || op.id == "getMyHome":
		if want.wants = []int{http.StatusOK}; op.id == "getMyHome" {
			want.request.target += "?limit=200"
			sees = sees && followsAll(r)
		}
		want.shows = func(a answer) (string, bool) {
			switch in := contains(a, item.id.String()); {
			case in && !sees && c.state.past():
				return "LATE", false
			case in && !sees:
				return "LEAK", false
			case !in && sees:
				return "EARLY", false
			}
			return "", true
		}
	case op.id == "unlikePost" || op.id == "unrepostPost": // of nothing it is no error
		want.wants = []int{http.StatusNoContent}
	case op.id == "deletePost" && r.isOwner() && c.state.isDeleted():
		want.wants = []int{http.StatusNoContent, c.state.refusal()}
	case op.id == "deletePost" && !r.isOwner() || !sees:
	case c.state.isHeld() && len(scopes) > 0: // what is done as a user is judged as the user
	case op.id == "deletePost" || op.id == "likePost":
		want.wants = []int{http.StatusNoContent}
	case op.id == "repostPost":
		want.wants = []int{http.StatusCreated, http.StatusOK}
	case op.id == "getPost" || op.id == "getThread":
		want.wants, want.shows = []int{http.StatusOK}, func(a answer) (string, bool) { return "INCOMPLETE", contains(a, item.secrets[0]) }
	default:
		want.wants = []int{http.StatusOK}
	}
	m.row(op, r, item, want)
}

// notAPost asks a route of posts for a story: every role is refused, and to take
// nothing back is no error.
func notAPost(m *matrix, op operation, r role, s *specimen) []row {
	wants := []int{s.state.refusal()}
	if slices.Contains([]string{"unlikePost", "unrepostPost"}, op.id) {
		wants = []int{http.StatusNoContent}
	}
	if scopes := m.route(op).Scopes; len(scopes) > 0 && !holdersOf(scopes)(r) {
		wants = []int{refusedRole(r)}
	}
	return []row{{request: request{method: op.method, target: op.target(s), header: m.header(r, s)}, wants: wants}}
}
