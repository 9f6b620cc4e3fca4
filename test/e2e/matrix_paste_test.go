package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/pasteapi"
	"github.com/mayflyhq/mayfly/api/wire"
)

// The forms of a paste that the matrix asks for, in the place of audiences.
const (
	public  = "public"
	private = "private"
	secured = "with a password"
	burning = "to be read once"
)

func pasteForms() []string { return []string{public, private, secured, burning} }

// pasteStates are the states that a paste has.
func pasteStates() []state {
	return []state{live, due, expired, held, heldLater, deleted, deletedDue, absent, absentDue}
}

// Every route of pastes that names one is asked by every role, for a paste of every
// form in every state: nothing is shown at or after the deadline, to its owner
// neither (C2, I4, I18).
func TestEveryRouteOfPastesIsExactForEveryRoleInEveryState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &matrix{testNode: openNode(t, nodeConfig()), audiences: pasteForms(), specimens: map[corner][]*specimen{}, used: map[corner]int{}, rows: map[string]int{}, counts: map[string]int{}}
		defer m.close()
		for _, op := range m.documents {
			if rt := m.route(op); rt.Product == pasteapi.Product && strings.Contains(rt.Pattern, "{") && rt.Pattern != "/{$}" && op.method != http.MethodPut {
				m.operations = append(m.operations, op)
			}
		}
		deadline := m.paste()
		m.sleepUntil(deadline.Add(-20 * time.Second))
		for c := range m.specimens {
			m.must(request{method: http.MethodPut, target: "/v1/me/blocks/" + userNamed(named(blocked)).String(), header: m.as(author(c.state, c.audience), "user")}, http.StatusNoContent)
		}
		m.each(func(s *specimen) {
			m.must(request{method: http.MethodDelete, target: "/v1/pastes/" + s.id.String(), header: m.as(s.author, "user")}, http.StatusNoContent)
		}, deleted, deletedDue)
		m.each(m.holds, held, heldLater)
		m.pastesAt(deadline-1, live, held, deleted, absent)
		m.pastesAt(deadline, due, deletedDue, heldLater, absentDue)
		m.sleepUntil(deadline.Add(walksLook))
		m.each(func(s *specimen) { m.isInState(mayfly.Deleted, s.state) }, expired)
		m.pastesAt(deadline.Add(walksLook), expired, heldLater)
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
		if sum < 4000 || m.equal < 2000 {
			t.Error("that is little")
		}
	})
}

// paste creates every paste that the matrix asks for; all end at the same instant.
func (m *matrix) paste() (deadline mayfly.Instant) {
	m.Helper()
	for _, s := range pasteStates() {
		for _, form := range m.audiences {
			c := corner{s, form}
			count := 5 // one to read, others for those who may delete
			if form == burning {
				count += 3 * len(roles()) // and for each who may read it
			}
			for n := range count {
				item := m.pasteOne(c, n)
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
	}
	return deadline
}

func (m *matrix) pasteOne(c corner, n int) *specimen {
	m.Helper()
	s := &specimen{state: c.state, audience: c.audience, author: author(c.state, c.audience)}
	s.secrets = []string{fmt.Sprintf("content %x", fmt.Sprint(c, n)), fmt.Sprintf("title %x", fmt.Sprint(c, n))}
	in := wire.NewPaste{Content: s.secrets[0], Title: s.secrets[1], Lifetime: "10m", Private: c.audience == private, Burn: c.audience == burning}
	if c.audience == secured {
		in.Password = "open sesame"
	}
	r := request{method: http.MethodPost, target: "/v1/pastes", header: m.as(s.author, "user")}
	if err := r.json(in); err != nil {
		m.Fatal(err)
	}
	var out wire.Paste
	if err := json.Unmarshal(m.must(r, http.StatusCreated).body, &out); err != nil {
		m.Fatal(err)
	}
	s.id = out.ID
	return s
}

// seesPaste is the visibility of a paste as SPEC says it: past its deadline it is
// for no one, but for moderators while it is held.
func seesPaste(r role, s state, form string) bool {
	switch {
	case s.isDeleted(), s.isAbsent(), s.past() && !s.isHeld():
		return false
	case r.isModerator():
		return true
	case s.isHeld():
		return false
	case r.isOwner():
		return true
	default:
		return form != private && r.within("everyone")
	}
}

// pastesAt asks every operation for pastes in some states at one instant.
func (m *matrix) pastesAt(instant mayfly.Instant, of ...state) {
	m.Helper()
	m.sleepUntil(instant)
	for _, s := range of {
		for _, form := range m.audiences {
			c := corner{s, form}
			for _, op := range m.operations {
				for _, r := range roles() {
					m.rows[op.id]++
					m.askPaste(op, r, c)
				}
			}
		}
	}
	if now := m.now(); now != instant {
		m.Errorf("it was to be %s all the time, and is %s", instant, now)
	}
}

func (m *matrix) askPaste(op operation, r role, c corner) {
	m.Helper()
	item, sees := m.specimens[c][0], seesPaste(r, c.state, c.audience)
	consumes := op.method == http.MethodPost && c.audience == burning && sees && !r.isModerator()
	deletes := op.method == http.MethodDelete && r.isOwner() && !c.state.isAbsent()
	if consumes || deletes && sees {
		m.used[c]++
		item = m.specimens[c][m.used[c]]
	}
	want := row{
		request: request{method: op.method, target: strings.NewReplacer("{id}", item.id.String(), "{name}", item.id.Short()).Replace(op.path), header: m.header(r, item)},
		wants:   []int{c.state.refusal()},
	}
	content := func(a answer) (string, bool) {
		return "INCOMPLETE", op.method == http.MethodHead || contains(a, item.secrets[0]) || op.id == "describePaste" && contains(a, item.secrets[1])
	}
	switch {
	case op.method == http.MethodDelete && deletes && sees:
		want.wants = []int{http.StatusNoContent}
	case op.method == http.MethodDelete && deletes && c.state.isDeleted():
		want.wants = []int{http.StatusNoContent, c.state.refusal()}
	case op.method == http.MethodDelete || !sees:
	case c.audience == secured && !r.isModerator(): // the prompt shows that there is one, and nothing of it
		want.wants, want.support = []int{http.StatusUnauthorized}, true
		defer m.showsNothing(op, r, item, want)
	case c.audience == burning && !r.isModerator() && !consumes && op.id != "describePaste":
		want.wants, want.support = []int{http.StatusConflict}, true
		defer m.showsNothing(op, r, item, want)
	default:
		want.wants, want.shows = []int{http.StatusOK}, content
	}
	m.row(op, r, item, want)
}

// showsNothing asks again and looks for anything of the paste in the answer.
func (m *matrix) showsNothing(op operation, r role, s *specimen, want row) {
	a, err := m.ask(want.request)
	if err != nil {
		m.wrong("BROKEN", op, r, s, err.Error())
		return
	}
	m.tells(op, r, s, a)
}
