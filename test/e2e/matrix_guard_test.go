package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/httpapi"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/product/account"
)

func everybody(role) bool    { return true }
func theUser(r role) bool    { return r.isUser() }
func theAdmin(r role) bool   { return r == admin }
func theService(r role) bool { return strings.HasPrefix(string(r), "service") }

// given says to whom SPEC gives operations that carry no item: users to what is
// their own, services to who follows whom, support and administrators to the admin
// listener (C1). A route that lost its scopes is found by it.
func given() map[string]func(role) bool {
	may := map[string]func(role) bool{"getToken": everybody, "revokeToken": everybody} // no token is needed
	for _, id := range []string{"createPaste", "createPasteJSON", "putPaste"} {        // pastes.anonymous is on
		may[id] = everybody
	}
	for who, ids := range map[string]string{
		"user": "preflight reserveUpload getUpload putMedium publishStory listCloseFriends addCloseFriend removeCloseFriend " +
			"listBlocks addBlock removeBlock follow unfollow listMyFollowing dropFollower listFollowRequests acceptFollowRequest declineFollowRequest listMutes mute unmute " +
			"getMyProfile changeMyProfile setMyAvatar getMyHome",
		"service": "addFollower removeFollower",
		"support": "listRuns listHeld",
		"admin": "listWalks listDeadLetters retryDeadLetter dropDeadLetter eraseAccount denyToken findOrphans eraseOrphans getScrub checkFeed importFeed findReferences getKVStatus addKVKey removeKVKey listPurges listAudit verifyAudit " +
			"listProfiles getProfile getCPUProfile getTrace",
	} {
		for id := range strings.FieldsSeq(ids) {
			may[id] = map[string]func(role) bool{"user": theUser, "service": theService, "support": theOperator, "admin": theAdmin}[who]
		}
	}
	return may
}

// mayAsk returns which roles may call a route that carries no item: those that
// given() says, else those that the route declares. A route without scopes is for
// everybody if it changes nothing and is about no caller.
func mayAsk(rt httpapi.Route) (func(role) bool, error) {
	if may, listed := given()[rt.ID]; listed {
		return may, nil
	}
	if len(rt.Scopes) > 0 {
		return holdersOf(rt.Scopes), nil
	}
	if rt.Changes() || strings.Contains(rt.Pattern, "/me/") {
		return nil, errors.New("it has no scopes and changes something or is about its caller: give it scopes, or say in given() who may")
	}
	return everybody, nil
}

// carriesItem reports whether a route can show an item: its path names one, or its
// body or an answer has the id of one.
func carriesItem(rt httpapi.Route) bool {
	if strings.Contains(rt.Pattern, "{id}") || strings.Contains(rt.Pattern, "{item}") {
		return true
	}
	content := slices.Clone(rt.Body)
	for _, a := range rt.Answers {
		content = append(content, a.Content...)
	}
	return slices.ContainsFunc(content, func(c httpapi.Typed) bool { return c.Shape != nil && hasID(c.Shape, map[reflect.Type]bool{}) })
}

// hasID reports whether values of a type have the id of an item in them.
func hasID(t reflect.Type, seen map[reflect.Type]bool) bool {
	if t == reflect.TypeFor[mayfly.ID]() {
		return true
	}
	if seen[t] {
		return false
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Struct:
		for f := range t.NumField() {
			if hasID(t.Field(f).Type, seen) {
				return true
			}
		}
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return hasID(t.Elem(), seen)
	}
	return false
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

// refusedRole returns what a role is answered whose token has none of the scopes.
func refusedRole(r role) int {
	if r == anonymous {
		return http.StatusUnauthorized
	}
	return http.StatusForbidden
}

// guards asks every operation that carries no item as every role that may not:
// 401 without a token, 403 with one that is good for something else. No caller who
// may is asked here, so that nothing changes.
func (m *matrix) guards() {
	m.Helper()
	asked := 0
	for _, op := range m.documents {
		if _, item := m.askOf(op); item {
			continue
		}
		may, err := mayAsk(m.route(op))
		if err != nil {
			m.Errorf("%s %s (%s): %v", op.method, op.path, op.id, err)
			continue
		}
		s := m.specimens[corner{live, "everyone"}][0]
		for _, r := range slices.DeleteFunc(roles(), may) {
			want := refusedRole(r)
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
		"{upload}", s.id.String(), "{n}", "0", "{item}", s.id.String(), "{step}", "archive", "{profile}", "heap", "{namespace}", "cache", "{credential}", "AAAAAAAA",
		"{user}", userNamed(s.author).String(), "{follower}", userNamed(named(stranger)).String(),
	).Replace(op.path)
}
