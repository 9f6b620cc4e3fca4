package e2e

import (
	"encoding/json"
	"net/http"

	"github.com/mayflyhq/mayfly/api/wire"
)

// ring asks for the author's ring, and looks for the item in it.
func ring(m *matrix, op operation, r role, s *specimen) []row {
	want := inRing(r, s.state, s.audience)
	return []row{{
		request: request{method: op.method, target: op.target(s), header: m.header(r, s)}, wants: []int{http.StatusOK},
		shows: func(a answer) (string, bool) { return lists(a, s, want, s.secrets[:max(0, len(s.secrets)-1)]) },
	}}
}

// tray asks for the caller's tray, and looks for the author in it.
func tray(m *matrix, op operation, r role, s *specimen) []row {
	status := r.asUser()
	if status == 0 {
		status = http.StatusOK
	}
	want := inTray(r, s.state, s.audience)
	return []row{{
		request: request{method: op.method, target: op.target(s), header: m.header(r, s)}, wants: []int{status},
		shows: func(a answer) (string, bool) {
			in := contains(a, userNamed(s.author).String())
			if s.state.isAbsent() { // its author has another story
				in = contains(a, s.id.String())
			}
			switch {
			case in && !want && s.state.past():
				return "LATE", false
			case (in || contains(a, s.id.String())) && !want:
				return "LEAK", false
			case !in && want:
				return "EARLY", false
			}
			return "", true
		},
	}}
}

// archive asks for the caller's archive, and looks for the item in it.
func archive(m *matrix, op operation, r role, s *specimen) []row {
	status := r.asUser()
	if status == 0 {
		status = http.StatusOK
	}
	want := inArchive(r, s.state)
	return []row{{
		request: request{method: op.method, target: op.target(s), header: m.header(r, s)}, wants: []int{status},
		shows: func(a answer) (string, bool) { return lists(a, s, want, s.secrets) },
	}}
}

// lists says whether a list has the item in it as it must, and nothing of it as
// it must not.
func lists(a answer, s *specimen, want bool, secrets []string) (word string, ok bool) {
	var list struct{ Stories []wire.Story }
	if err := json.Unmarshal(a.body, &list); err != nil {
		return "BROKEN", false
	}
	in := false
	for _, story := range list.Stories {
		in = in || story.ID == s.id
	}
	switch {
	case in && !want && s.state.past():
		return "LATE", false
	case in && !want:
		return "LEAK", false
	case !in && want:
		return "EARLY", false
	case !in:
		for _, secret := range secrets {
			if contains(a, secret) {
				return "LEAK", false
			}
		}
	}
	return "", true
}
