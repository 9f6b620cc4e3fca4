package e2e

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/mayflyhq/mayfly/api/feedapi"
	"github.com/mayflyhq/mayfly/api/pasteapi"
)

// ask is how the matrix asks an operation.
type ask struct {
	// rows are the requests of a role for an item, with what must come.
	rows func(m *matrix, op operation, r role, s *specimen) []row
	// changes says whether the operation changes the item when that role asks: it
	// gets an item of its own then.
	changes func(r role) bool
}

func noRole(role) bool        { return false }
func theOwner(r role) bool    { return r.isOwner() }
func theOperator(r role) bool { return r.isModerator() || r == admin }

// asks are the operations that carry an item.
func asks() map[string]ask {
	return map[string]ask{
		"openStory":    {open, noRole},
		"viewStory":    {byToken, noRole},
		"listViewers":  {byToken, noRole},
		"reshareStory": {byToken, noRole},
		"deleteStory":  {byToken, theOwner},
		"getMedium":    {media, noRole},
		"headMedium":   {media, noRole},
		"getRing":      {ring, noRole},
		"getTray":      {tray, noRole},
		"listArchive":  {archive, noRole},
		"explain":      {explain, noRole},
		"hold":         {operator, theOperator},
		"release":      {operator, theOperator},
		"restore":      {operator, theOperator},
	}
}

// askOf returns how an operation on an item is asked. One that asks() does not name
// must show its item to the viewers who may open it, and to no other.
func (m *matrix) askOf(op operation) (ask, bool) {
	if a, named := asks()[op.id]; named {
		return a, true
	}
	rt := m.route(op)
	if rt.Product == pasteapi.Product { // TestEveryRouteOfPastesIsExactForEveryRoleInEveryState
		return ask{notAPaste, noRole}, rt.Pattern != "/{$}" && rt.Pattern != "/v1/me/pastes" && rt.Pattern != "/v1/pastes" && rt.Method != http.MethodPut
	}
	if rt.Product == feedapi.Product { // TestEveryRouteOfPostsIsExactForEveryRoleInEveryState
		return ask{notAPost, noRole}, strings.Contains(rt.Pattern, "{id}")
	}
	return ask{byScope, noRole}, withoutItem()[op.id] == "" && !rt.Admin && !rt.Changes() && strings.Contains(rt.Pattern, "{id}")
}

// withoutItem are the operations that look as if they carried an item and do not,
// with the reason.
func withoutItem() map[string]string {
	return map[string]string{
		"reserveUpload": "an upload is no item until it is published; reserve.txt",
		"getUpload":     "an upload is its owner's alone; reserve.txt",
		"publishStory":  "makes an item; the answer is its author's own",
		"createPaste":   "makes an item; the answer is its author's own", "createPasteJSON": "makes an item; the answer is its author's own", "putPaste": "makes an item; the answer is its author's own",
		"createPost":      "makes an item; the answer is its author's own",
		"importFeed":      "makes items of others, for administrators; app/cli/feed_test.go",
		"getMyHome":       "posts of whom the caller follows; matrix_feed_test.go",
		"listPosts":       "the posts of a user; matrix_feed_test.go",
		"listPastes":      "one's own pastes; matrix_paste_test.go",
		"listDeadLetters": "ids and steps, for administrators; none here", "retryDeadLetter": "a step, for administrators", "dropDeadLetter": "a step, for administrators",
		"listHeld": "ids of what is held, for support; no content",
		"getScrub": "counts of copies, for administrators", "listAudit": "what operators did, for administrators",
	}
}

// notAPaste asks a route of pastes for a story: every role is refused.
func notAPaste(m *matrix, op operation, r role, s *specimen) []row {
	target := strings.NewReplacer("{id}", s.id.String(), "{name}", s.id.Short()).Replace(op.path)
	return []row{{request: request{method: op.method, target: target, header: m.header(r, s)}, wants: []int{s.state.refusal()}}}
}

// target is the path of an operation on an item.
func (op operation) target(s *specimen) string {
	return strings.NewReplacer("{id}", s.id.String(), "{object}", "0", "{user}", userNamed(s.author).String()).Replace(op.path)
}

// byToken asks as who the token says.
func byToken(m *matrix, op operation, r role, s *specimen) []row {
	return []row{{request: request{method: op.method, target: op.target(s), header: m.header(r, s)}, wants: expected(op.id, r, s.state, s.audience)}}
}

// byScope asks as who the token says, for a route that declares its scopes.
func byScope(m *matrix, op operation, r role, s *specimen) []row {
	wants := expected("openStory", r, s.state, s.audience)
	if scopes := m.route(op).Scopes; len(scopes) > 0 && !holdersOf(scopes)(r) {
		wants = []int{refusedRole(r)}
	}
	return []row{{request: request{method: op.method, target: op.target(s), header: m.header(r, s)}, wants: wants}}
}

// with is the row with a header more, which changes the status of who is shown
// something and of no other.
func (w row) with(name, value string, status int) row {
	w.request.header = w.request.header.Clone()
	w.request.header.Set(name, value)
	if shown(w.wants[0]) {
		w.wants, w.shows = []int{status}, nil
	}
	return w
}

// open asks for the story by both spellings of its id, and whether it has
// changed, which must not tell that it is there.
func open(m *matrix, op operation, r role, s *specimen) []row {
	plain := byToken(m, op, r, s)[0]
	plain.shows = func(a answer) (string, bool) { return "INCOMPLETE", containsAll(a, s.secrets) }
	short := plain
	short.request.target = strings.Replace(short.request.target, s.id.String(), s.id.Short(), 1)
	return []row{plain, short, plain.with("If-None-Match", "*", http.StatusNotModified)}
}

// media asks for the bytes and for a smaller picture: by token, and by the URLs
// that a role was given while it could see the item; for a part, for one that is
// not there, and whether they have changed.
func media(m *matrix, op operation, r role, s *specimen) []row {
	var rows []row
	for _, object := range []string{"0", "0-320"} {
		rows = append(rows, row{
			request: request{method: op.method, target: fmt.Sprintf("/v1/media/%s/%s", s.id, object), header: m.header(r, s)},
			wants:   expected(op.id, r, s.state, s.audience),
		})
	}
	for _, url := range s.urls[r] {
		alone := row{request: request{method: op.method, target: url, header: http.Header{}}, wants: signed(r, s)}
		if strings.Contains(url, "moderator=") { // good with that moderator's token only
			with := alone
			with.request.header = m.header(r, s)
			rows, alone.wants = append(rows, with), []int{s.state.refusal()}
		}
		rows = append(rows, alone)
	}
	whole := rows[0]
	rows = append(rows, whole.with("If-None-Match", "*", http.StatusNotModified))
	if op.method == http.MethodGet {
		rows = append(rows, whole.with("Range", "bytes=0-3", http.StatusPartialContent), whole.with("Range", "bytes=99999-", http.StatusRequestedRangeNotSatisfiable))
	}
	return rows
}

// signed is what a URL must answer that was given to a role seconds before the
// item's end, and before it was deleted, held, or its reader blocked (ST3): it
// dies with the item, and while that serves its reader is judged again, but that
// one for everyone names no reader and may outlive a block for its minute (ST10).
func signed(r role, s *specimen) []int {
	switch {
	case s.state == live || s.state == held || s.state == deleted || s.state == restored:
		if r == blocked && s.audience == "everyone" && s.state.serves() && !s.state.isHeld() {
			return []int{s.state.refusal(), http.StatusOK}
		}
		if sees(r, s.state, s.audience) {
			return []int{http.StatusOK}
		}
	}
	return []int{s.state.refusal()}
}
