package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/mayflyhq/mayfly"
)

// row is one request of the matrix, and what must come of it.
type row struct {
	request request
	wants   []int
	shows   func(a answer) (string, bool) // what is wrong with a good answer; may be nil
	support bool                          // the answer is for support, who may know what is there
}

func (m *matrix) row(op operation, r role, s *specimen, want row) {
	a, err := m.ask(want.request)
	if err != nil {
		m.wrong("BROKEN", op, r, s, err.Error())
		return
	}
	if !slices.Contains(want.wants, a.status) {
		m.wrong(m.word(a.status, want.wants[0], s.state), op, r, s, fmt.Sprintf("%d, not %v: %s", a.status, want.wants, excerpt(a.body)))
		return
	}
	if a.status < 400 {
		if want.shows == nil {
			return
		}
		if word, ok := want.shows(a); !ok {
			m.wrong(word, op, r, s, excerpt(a.body))
		}
		return
	}
	if want.support || shown(a.status) {
		return
	}
	m.tells(op, r, s, a)
	twin := want.request.about(s.id, neverWasLike(s.id))
	if s.state.isAbsent() {
		twin = want.request.about(s.id, anotherNeverWas(s.id))
	}
	b, err := m.ask(twin)
	if err != nil {
		m.wrong("BROKEN", op, r, s, err.Error())
		return
	}
	m.equal++
	for _, difference := range differences(a, b) {
		m.wrong("REVEALED", op, r, s, "refused differently from an id that never was: "+difference)
	}
}

// word says what is wrong in the words of the project: shown to who may not see
// it, shown after its end, refused before it.
func (m *matrix) word(got, want int, s state) string {
	switch {
	case shown(got) && !shown(want) && s.past():
		return "LATE"
	case shown(got) && !shown(want):
		return "LEAK"
	case !shown(got) && shown(want):
		return "EARLY"
	}
	return "STATUS"
}

// shown says whether a status shows that there is something: a range that cannot
// be had, too.
func shown(status int) bool {
	return status < 400 || status == http.StatusRequestedRangeNotSatisfiable
}

// tells looks for anything of the item in a refusal (I18).
func (m *matrix) tells(op operation, r role, s *specimen, a answer) {
	for _, secret := range s.secrets {
		if contains(a, secret) {
			m.wrong("LEAK", op, r, s, "a refusal has in it "+secret)
		}
	}
}

func (m *matrix) wrong(word string, op operation, r role, s *specimen, what string) {
	m.Helper()
	m.counts[word]++
	if !m.quiet {
		m.Errorf("%s: %s %s by %s, %s for %s: %s", word, op.method, op.path, r, s.state, s.audience, what)
	}
}

// about is the same request about another id.
func (r request) about(id, other mayfly.ID) request {
	r.target = strings.NewReplacer(id.String(), other.String(), id.Short(), other.Short()).Replace(r.target)
	r.body = bytes.Replace(r.body, []byte(id.String()), []byte(other.String()), 1)
	return r
}

func anotherNeverWas(id mayfly.ID) mayfly.ID {
	id[13] ^= 0x5a
	return id
}

// contains looks for a text in an answer, its headers too.
func contains(a answer, text string) bool {
	if bytes.Contains(a.body, []byte(text)) {
		return true
	}
	for _, values := range a.header {
		if strings.Contains(strings.Join(values, " "), text) {
			return true
		}
	}
	return false
}

func containsAll(a answer, texts []string) bool {
	for _, text := range texts {
		if !contains(a, text) {
			return false
		}
	}
	return true
}
