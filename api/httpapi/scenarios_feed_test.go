package httpapi_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/test/fixture/nodetest"
)

// without is the scenario whose answer does not contain some texts either.
func (s scenario) without(texts ...string) scenario {
	s.hasNot = texts
	return s
}

// feedWords publishes posts of ana's and returns the words by which scenarios name them.
func feedWords(t testing.TB, h *testNode) []string {
	t.Helper()
	post := func(body string) wire.Post {
		return nodetest.ReadJSON[wire.Post](t, h.Want(nodetest.Request{As: "ana", Method: "POST", Path: "/v1/posts", Body: body}, http.StatusCreated))
	}
	ended := post(`{"text":"over","lifetime":"10m"}`)
	h.Machine.Advance(11 * time.Minute)
	open := post(`{"text":"<b>@ben</b> #Sea https://example.org"}`)
	deleted, held := post(`{"text":"secret words"}`), post(`{"text":"secret words"}`)
	h.Want(nodetest.Request{As: "ana", Method: "DELETE", Path: "/v1/posts/" + deleted.ID.String()}, http.StatusNoContent)
	h.Want(nodetest.Request{As: "moderator", Method: "PUT", Path: "/v1/holds/" + held.ID.String(), Body: `{"reason":"a court asks"}`, Admin: true}, http.StatusNoContent)
	now := h.Clock().Read().Now
	return []string{
		"{post}", open.ID.String(), "{post-short}", open.Short, "{post-deleted}", deleted.ID.String(), "{post-held}", held.ID.String(), "{post-ended}", ended.ID.String(),
		"{post-never}", never(t, now, 24*time.Hour).String(), "{post-past}", never(t, now.Add(-48*time.Hour), 24*time.Hour).String(),
	}
}

// feedScenarios returns the scenarios of the routes of posts, by operation.
func feedScenarios() map[string][]scenario {
	secret := []string{"secret words"}
	// refused are the answers that show nothing.
	refused := func(method, tail string) []scenario {
		at := func(word string) string { return "/v1/posts/{" + word + "}" + tail }
		return []scenario{
			{as: "ben", method: method, path: at("post-never"), status: 404},
			{as: "ben", method: method, path: at("post-past"), status: 410},
			{as: "ben", method: method, path: at("post-deleted"), status: 404, hasNot: secret},
			{as: "ben", method: method, path: at("post-ended"), status: 410},
			{as: "ben", method: method, path: at("post-held"), status: 404, hasNot: secret},
			{as: "blocked", method: method, path: at("post"), status: 404},
			{as: "ben", method: method, path: at("all"), status: 404}, // a story
			{as: "ben", method: method, path: "/v1/posts/nonsense" + tail, status: 400},
		}
	}
	noUser := func(method, path string) []scenario {
		return []scenario{
			{as: "anonymous", method: method, path: path, status: 401},
			{as: "service", method: method, path: path, status: 403},
			{as: "moderator", method: method, path: path, status: 403},
			{as: "admin", method: method, path: path, status: 403},
		}
	}
	create := func(body string, status int, has ...string) scenario {
		return scenario{as: "ben", method: "POST", path: "/v1/posts", body: body, status: status, has: has}
	}
	key := map[string]string{"Idempotency-Key": "k"}
	const empty = `{"posts":[],"authors":[]}`
	home := func(as string, has ...string) scenario {
		return scenario{as: as, method: "GET", path: "/v1/me/home", status: 200, has: has}
	}
	change := func(as, method, path string, status int) scenario {
		return scenario{as: as, method: method, path: path, status: status}
	}
	return map[string][]scenario{
		"createPost": append(noUser("POST", "/v1/posts"),
			create(`{"text":"hello #Straße @ana"}`, 201, "Location", "Etag", `"lifetime":"never"`, `"kind":"post"`, `"name":"strasse"`, `"name":"ana"`),
			create(`{"text":"<script>alert(1)</script>"}`, 201, `"text":"<script>alert(1)</script>"`, "nosniff", "application/json"),
			create(`{"text":"a\u202eb","lifetime":"90m"}`, 201, `"text":"ab"`, `"lifetime":"90m"`, "expires_at"),
			create(`{"text":"me too","reply_to":"{post}"}`, 201, `"kind":"reply"`, `"root":"{post}"`),
			create(`{"text":"see","quote":"{post}"}`, 201, `"kind":"quote"`, `"of":{"id":"{post}"`),
			create(`{"text":"x","reply_to":"{post-deleted}"}`, 404), create(`{"text":"x","quote":"{post-held}"}`, 404), create(`{"text":"x","reply_to":"{all}"}`, 404),
			create(`{"text":"x","reply_to":"{post-ended}"}`, 410), create(`{"text":"x","reply_to":"{post}","quote":"{post}"}`, 400),
			scenario{as: "blocked", method: "POST", path: "/v1/posts", body: `{"text":"x","reply_to":"{post}"}`, status: 404},
			create(`{"text":""}`, 400), create(`{"text":"`+strings.Repeat("x", 281)+`"}`, 400, "280"), create(`{"text":"a\u0000b"}`, 400), create(`{"text":"x","colour":"red"}`, 400),
			create(`{"text":"`+strings.Repeat("\u0301", 5_000)+`"}`, 413), create(`{"text":"`+strings.Repeat("\u0301", 2<<20)+`"}`, 413),
			create(`{"text":"x","lifetime":"1s"}`, 400, "never"), create(`{"text":"x","lifetime":"soon"}`, 400),
			scenario{as: "ben", method: "POST", path: "/v1/posts", body: `{"text":"once"}`, header: key, status: 201},
			scenario{as: "ben", method: "POST", path: "/v1/posts", body: `{"text":"once"}`, header: key, status: 200},
			scenario{as: "ben", method: "POST", path: "/v1/posts", body: `{"text":"twice"}`, header: key, status: 409},
			scenario{as: "service:ben", method: "POST", path: "/v1/posts", body: `{"text":"for ben"}`, status: 201},
			scenario{as: "ben", method: "POST", path: "/v1/posts", typ: "text/plain", body: "x", status: 415},
		),
		"getPost": append(refused("GET", ""),
			scenario{as: "anonymous", method: "GET", path: "/v1/posts/{post}", status: 200, has: []string{`"text":"<b>@ben</b> #Sea https://example.org"`, `"name":"sea"`, "Etag"}, hasNot: []string{"expires_at"}},
			scenario{as: "ana", method: "GET", path: "/v1/posts/{post-short}", status: 200},
			scenario{as: "ben", method: "GET", path: "/v1/posts/{post}", header: map[string]string{"If-None-Match": "*"}, status: 304},
			scenario{as: "ana", method: "GET", path: "/v1/posts/{post-held}", status: 404, hasNot: secret},
			scenario{as: "moderator", method: "GET", path: "/v1/posts/{post-held}", status: 200, has: []string{`"held":true`}},
		),
		"deletePost": append(append(refused("DELETE", ""), noUser("DELETE", "/v1/posts/{post}")...),
			scenario{as: "ben", method: "DELETE", path: "/v1/posts/{post}", status: 404},
			scenario{as: "ana", method: "DELETE", path: "/v1/posts/{post}", status: 204}, scenario{as: "ana", method: "DELETE", path: "/v1/posts/{post}", status: 204},
			scenario{as: "ana", method: "GET", path: "/v1/posts/{post}", status: 404},
		),
		"listLikes": append(refused("GET", "/likes"),
			scenario{as: "anonymous", method: "GET", path: "/v1/posts/{post}/likes", status: 200, has: []string{`"users":[]`}},
			scenario{as: "ben", method: "GET", path: "/v1/posts/{post}/likes?cursor=nonsense", status: 400},
			scenario{as: "ben", method: "GET", path: "/v1/posts/{post}/likes?limit=0", status: 400},
		),
		"getThread": append(refused("GET", "/thread"),
			create(`{"text":"me too","reply_to":"{post}"}`, 201),
			scenario{as: "anonymous", method: "GET", path: "/v1/posts/{post}/thread", status: 200, has: []string{`"post":{"id":"{post}"`, `"replies":[{"id":"`, `"text":"me too"`, "Etag"}, hasNot: []string{`"ancestors"`, `"next"`}},
			scenario{as: "ana", method: "GET", path: "/v1/posts/{post-short}/thread?limit=1", status: 200, has: []string{"me too"}},
			scenario{as: "ben", method: "GET", path: "/v1/posts/{post}/thread", header: map[string]string{"If-None-Match": "*"}, status: 304},
			scenario{as: "moderator", method: "GET", path: "/v1/posts/{post-held}/thread", status: 200, has: []string{`"held":true`, `"replies":[]`}},
			scenario{as: "ben", method: "GET", path: "/v1/posts/{post}/thread?cursor=nonsense", status: 400},
			scenario{as: "ben", method: "GET", path: "/v1/posts/{post}/thread?limit=0", status: 400},
		),
		"listPosts": {
			{as: "anonymous", method: "GET", path: "/v1/users/{ana}/posts", status: 200, has: []string{"{post}"}, hasNot: []string{"{post-held}", "{post-deleted}", "{post-ended}", "secret words"}},
			{as: "moderator", method: "GET", path: "/v1/users/~ana/posts", status: 200, has: []string{"{post-held}"}},
			{as: "blocked", method: "GET", path: "/v1/users/{ana}/posts", status: 200, has: []string{`{"posts":[]}`}},
			{as: "ben", method: "GET", path: "/v1/users/{stranger}/posts", status: 200, has: []string{`{"posts":[]}`}},
			{as: "ben", method: "GET", path: "/v1/users/{ana}/posts?cursor=nonsense", status: 400},
			{as: "ben", method: "GET", path: "/v1/users/{ana}/posts", header: map[string]string{"If-None-Match": "*"}, status: 304},
		},
		"getMyHome": append(noUser("GET", "/v1/me/home"), []scenario{
			home("ben", `"authors":[{"user":"{ana}"`, "{post}", "Etag").without("{post-held}", "{post-deleted}", "{post-ended}", "secret words", `"next"`),
			{as: "ben", method: "GET", path: "/v1/me/home", header: map[string]string{"If-None-Match": "*"}, status: 304},
			{as: "service:ben", method: "GET", path: "/v1/me/home?limit=1", status: 200, has: []string{"{post}"}},
			{as: "ben", method: "GET", path: "/v1/me/home?cursor=nonsense", status: 400, has: []string{"next of the page before"}},
			{as: "ben", method: "GET", path: "/v1/me/home?limit=0", status: 400},
			home("ana", empty), home("stranger", empty), home("blocked", empty),
			// What ben changes shows on the next read.
			change("ben", "DELETE", "/v1/me/following/{ana}", 204), home("ben", empty),
			change("ben", "PUT", "/v1/me/following/{ana}", 200), home("ben", "{post}"),
			change("ben", "PUT", "/v1/me/mutes/{ana}", 204), home("ben", empty),
			change("ben", "DELETE", "/v1/me/mutes/{ana}", 204), home("ben", "{post}"),
			change("ben", "PUT", "/v1/me/blocks/{ana}", 204), home("ben", empty),
			change("ben", "DELETE", "/v1/me/blocks/{ana}", 204), home("ben", empty),
			change("ben", "PUT", "/v1/me/following/{ana}", 200), home("ben", "{post}"),
			// And what others do: friend does not follow ana.
			change("friend", "PUT", "/v1/me/following/~ben", 200), home("friend", empty),
			change("ben", "PUT", "/v1/posts/{post}/repost", 201), home("friend", `"kind":"repost"`, `"user":"{ana}"`, "{post}"),
			change("friend", "PUT", "/v1/me/mutes/{ana}", 204), home("friend", empty),
			change("friend", "DELETE", "/v1/me/mutes/{ana}", 204), home("friend", "{post}"),
			{as: "ana", method: "PATCH", path: "/v1/me/profile", body: `{"private":true}`, status: 200},
			home("friend", empty), home("ben", "{post}"),
			{as: "ana", method: "PATCH", path: "/v1/me/profile", body: `{"private":false}`, status: 200},
			home("friend", "{post}"),
			change("ana", "PUT", "/v1/me/blocks/~friend", 204), home("friend", empty), change("ana", "DELETE", "/v1/me/blocks/~friend", 204),
			change("ben", "DELETE", "/v1/posts/{post}/repost", 204), home("friend", empty),
			change("ben", "PUT", "/v1/posts/{post}/repost", 201), home("friend", "{post}"),
			change("ana", "DELETE", "/v1/posts/{post}", 204), home("friend", empty), home("ben", empty),
		}...),
		"likePost": append(append(refused("PUT", "/like"), noUser("PUT", "/v1/posts/{post}/like")...),
			scenario{as: "ben", method: "PUT", path: "/v1/posts/{post}/like", status: 204}, scenario{as: "ben", method: "PUT", path: "/v1/posts/{post}/like", status: 204},
			scenario{as: "ben", method: "GET", path: "/v1/posts/{post}", status: 200, has: []string{`"liked":true`}},
			scenario{as: "ana", method: "GET", path: "/v1/posts/{post}", status: 200, hasNot: []string{`"liked"`}},
			scenario{as: "ana", method: "GET", path: "/v1/posts/{post}/likes", status: 200, has: []string{`"user":"`}},
		),
		"unlikePost": append(noUser("DELETE", "/v1/posts/{post}/like"),
			scenario{as: "ben", method: "PUT", path: "/v1/posts/{post}/like", status: 204}, scenario{as: "ben", method: "DELETE", path: "/v1/posts/{post}/like", status: 204},
			scenario{as: "ben", method: "GET", path: "/v1/posts/{post}", status: 200, hasNot: []string{`"liked"`}},
			scenario{as: "ben", method: "DELETE", path: "/v1/posts/{post-never}/like", status: 204},
		),
		"repostPost": append(append(refused("PUT", "/repost"), noUser("PUT", "/v1/posts/{post}/repost")...),
			scenario{as: "ben", method: "PUT", path: "/v1/posts/{post}/repost", status: 201, has: []string{`"kind":"repost"`, `"about":"{post}"`, `"reposted":true`, "Location"}},
			scenario{as: "ben", method: "PUT", path: "/v1/posts/{post}/repost", status: 200},
			scenario{as: "ana", method: "GET", path: "/v1/users/~ben/posts", status: 200, has: []string{`"about":"{post}"`}},
			scenario{as: "blocked", method: "GET", path: "/v1/users/~ben/posts", status: 200, has: []string{`{"posts":[]}`}},
		),
		"unrepostPost": append(noUser("DELETE", "/v1/posts/{post}/repost"),
			scenario{as: "ben", method: "PUT", path: "/v1/posts/{post}/repost", status: 201}, scenario{as: "ben", method: "DELETE", path: "/v1/posts/{post}/repost", status: 204},
			scenario{as: "ana", method: "GET", path: "/v1/users/~ben/posts", status: 200, has: []string{`{"posts":[]}`}},
			scenario{as: "ben", method: "DELETE", path: "/v1/posts/{post-never}/repost", status: 204},
		),
	}
}
