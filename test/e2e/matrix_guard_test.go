package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/mayflyhq/mayfly/api/httpapi"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/product/account"
)

func everybody(role) bool    { return true }
func theUser(r role) bool    { return r.isUser() }
func theAdmin(r role) bool   { return r == admin }
func theService(r role) bool { return strings.HasPrefix(string(r), "service") }

// mayAsk says, of every operation that carries no item, to whom SPEC gives it:
// users to what is their own, services to who follows whom, support and
// administrators to the admin listener (C1).
func mayAsk() map[string]func(role) bool {
	may := map[string]func(role) bool{}
	for who, ids := range map[string]string{
		"everybody": "getToken getDocument readDocs readHome isAlive isReady getReadiness headReadiness getMetrics",
		"user": "preflight reserveUpload getUpload putMedium publishStory listCloseFriends addCloseFriend removeCloseFriend " +
			"listBlocks addBlock removeBlock",
		"service": "addFollower removeFollower",
		"support": "listRuns",
		"admin": "listWalks listDeadLetters retryDeadLetter dropDeadLetter eraseAccount findOrphans eraseOrphans getScrub listAudit verifyAudit " +
			"listProfiles getProfile getCPUProfile getTrace",
	} {
		for id := range strings.FieldsSeq(ids) {
			may[id] = map[string]func(role) bool{
				"everybody": everybody, "user": theUser, "service": theService, "support": theOperator, "admin": theAdmin,
			}[who]
		}
	}
	return may
}

// guardedByScope reports whether the scopes that a route declares are all that the
// matrix has to check of it: the route belongs to a product that mayAsk() does not
// list, and its path names no item.
func guardedByScope(rt httpapi.Route) bool {
	_, listed := mayAsk()[rt.ID]
	return !listed && !strings.Contains(rt.Pattern, "{id}") && !strings.Contains(rt.Pattern, "{item}") && len(rt.Scopes) > 0
}

// holdersOf returns which roles have one of the scopes.
func holdersOf(scopes []account.Scope) func(role) bool {
	holders := map[account.Scope]func(role) bool{
		account.User: theUser, account.Service: theService, account.Moderator: role.isModerator, account.Admin: theAdmin,
	}
	return func(r role) bool {
		return slices.ContainsFunc(scopes, func(s account.Scope) bool { return holders[s](r) })
	}
}

// guards asks every operation that carries no item as every role that may not:
// 401 without a token, 403 with one that is good for something else. No caller who
// may is asked here, so that nothing changes.
func (m *matrix) guards() {
	m.Helper()
	asked := 0
	for _, op := range m.documents {
		may, known := mayAsk()[op.id]
		if _, item := asks()[op.id]; item {
			continue
		}
		if rt := m.route(op); !known && guardedByScope(rt) {
			may = holdersOf(rt.Scopes)
		} else if !known {
			m.Errorf("%s %s (%s): mayAsk() does not say who may", op.method, op.path, op.id)
			continue
		}
		s := m.specimens[corner{live, "everyone"}][0]
		for _, r := range slices.DeleteFunc(roles(), may) {
			want := http.StatusForbidden
			if r == anonymous {
				want = http.StatusUnauthorized
			}
			req := request{method: op.method, target: guardedTarget(op, s), header: m.header(r, s), admin: op.admin}
			if err := req.json(wire.Reason{Reason: "the matrix"}); err != nil {
				m.Fatal(err)
			}
			a, err := m.ask(req)
			if err != nil || a.status != want {
				m.wrong("GUARD", op, r, s, fmt.Sprintf("%d, not %d, %v: %s", a.status, want, err, excerpt(a.body)))
			}
			asked++
		}
	}
	m.Logf("%d requests without the right were refused", asked)
	if asked < 200 {
		m.Errorf("that is little")
	}
}

// guardedTarget fills the places of a path with something that could be there.
func guardedTarget(op operation, s *specimen) string {
	return strings.NewReplacer(
		"{upload}", s.id.String(), "{n}", "0", "{item}", s.id.String(), "{step}", "archive", "{profile}", "heap",
		"{user}", userNamed(s.author).String(), "{follower}", userNamed(named(stranger)).String(),
	).Replace(op.path)
}
