package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/mayflyhq/mayfly/api/wire"
)

// explain is for operators, and shows no content even to them (C2). It is asked
// about every role; its verdict must be the oracle's.
func explain(m *matrix, op operation, r role, s *specimen) []row {
	var rows []row
	viewers := map[string]role{"anonymous": anonymous, "moderator": moderator, userNamed(s.author).String(): owner}
	for _, about := range []role{follower, exFollower, closeFriend, blocked, stranger} {
		viewers[userNamed(named(about)).String()] = about
	}
	if !theOperator(r) {
		viewers = map[string]role{"anonymous": anonymous}
	}
	for viewer, about := range viewers {
		want := verdict(about, s.state, s.audience)
		rows = append(rows, row{
			request: request{method: op.method, target: op.target(s) + "?viewer=" + viewer, header: m.header(r, s), admin: true},
			wants:   []int{asOperator(r, http.StatusOK)},
			shows: func(a answer) (string, bool) {
				var e wire.Explanation
				if err := json.Unmarshal(a.body, &e); err != nil || e.Verdict != want {
					return fmt.Sprintf("VERDICT for %s is %s, not %s", about, e.Verdict, want), false
				}
				for _, secret := range s.secrets[:min(2, len(s.secrets))] {
					if contains(a, secret) {
						return "LEAK", false
					}
				}
				return "", true
			},
		})
	}
	return rows
}

func asOperator(r role, status int) int {
	if theOperator(r) {
		return status
	}
	return refusedRole(r)
}

// operator asks for an operation of support. The answer to other roles is that they
// are not support, and nothing else; support learns what can be done.
func operator(m *matrix, op operation, r role, s *specimen) []row {
	req := request{method: op.method, target: op.target(s), header: m.header(r, s), admin: true}
	var body any = wire.Reason{Reason: "the matrix"}
	if op.id == "restore" {
		until := m.now().Add(4 * restoredAfter)
		body = wire.RestoreRequest{ID: &s.id, Until: &until, Reason: "the matrix"}
	}
	if err := req.json(body); err != nil {
		m.Fatal(err)
	}
	if !theOperator(r) {
		return []row{{request: req, wants: []int{asOperator(r, 0)}}}
	}
	return []row{{request: req, wants: operated(op.id, s.state), support: true}}
}

// operated returns what support is answered, who may know what is there.
func operated(op string, s state) []int {
	switch {
	case s.isAbsent():
		return []int{http.StatusNotFound, http.StatusGone}
	case s.isDeleted() && op == "release": // nothing holds it, and nothing is done
		return []int{http.StatusNoContent}
	case s.isDeleted():
		return []int{http.StatusGone}
	case op != "restore":
		return []int{http.StatusNoContent}
	case s.serves() || s.isHeld():
		return []int{http.StatusConflict}
	default:
		return []int{http.StatusOK}
	}
}
