package httpapi_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/test/fixture/nodetest"
)

// Where new posts wait for a moderator, no user sees one before its release, its author
// neither, in any list or count; the next read after the release shows it.
func TestANewPostIsHeldUntilAModeratorReleasesIt(t *testing.T) {
	h := newTestNode(t, func(c *config.Config) { c.Feed.Hold = true })
	key := map[string]string{"Idempotency-Key": "k"}
	publish := func(as, body string, header map[string]string) wire.Post {
		t.Helper()
		h.Machine.Advance(time.Millisecond)
		return nodetest.ReadJSON[wire.Post](t, h.Want(nodetest.Request{As: as, Method: "POST", Path: "/v1/posts", Body: body, Header: header}, http.StatusAccepted))
	}
	release := func(id mayfly.ID) {
		t.Helper()
		h.Want(nodetest.Request{As: "moderator", Method: "DELETE", Path: "/v1/holds/" + id.String(), Body: `{"reason":"it is fine"}`, Admin: true}, http.StatusNoContent)
	}
	held := func() (ids []mayfly.ID) {
		t.Helper()
		w := h.Want(nodetest.Request{As: "moderator", Method: "GET", Path: "/v1/held", Admin: true}, http.StatusOK)
		for _, item := range nodetest.ReadJSON[wire.Held](t, w).Items {
			ids = append(ids, item.ID)
		}
		slices.SortFunc(ids, func(a, b mayfly.ID) int { return strings.Compare(a.String(), b.String()) })
		return ids
	}
	list := func(as, path string) []wire.Post {
		t.Helper()
		return nodetest.ReadJSON[wire.Posts](t, h.Get(as, path, http.StatusOK)).Posts
	}
	top := publish("ana", `{"text":"first"}`, key)
	if again := publish("ana", `{"text":"first"}`, key); again.ID != top.ID || !again.Held || again.Text != "first" {
		t.Errorf("%+v", again)
	}
	path := "/v1/posts/" + top.ID.String()
	for _, as := range []string{"ana", "ben", "anonymous"} {
		h.Get(as, path, http.StatusNotFound)
		h.Get(as, path+"/thread", http.StatusNotFound)
		if posts := list(as, "/v1/users/~ana/posts"); len(posts) > 0 {
			t.Errorf("%s: %+v", as, posts)
		}
	}
	h.Want(nodetest.Request{As: "ben", Method: "PUT", Path: path + "/like"}, http.StatusNotFound)
	h.Want(nodetest.Request{As: "ben", Method: "POST", Path: "/v1/posts", Body: `{"text":"x","reply_to":"` + top.ID.String() + `"}`}, http.StatusNotFound)
	h.Get("moderator", path, http.StatusOK)
	release(top.ID)
	for _, as := range []string{"ana", "ben", "anonymous"} { // the next read
		h.Get(as, path, http.StatusOK)
		if posts := list(as, "/v1/users/~ana/posts"); len(posts) != 1 || posts[0].ID != top.ID || posts[0].Held {
			t.Errorf("%s: %+v", as, posts)
		}
	}
	if w := h.Want(nodetest.Request{As: "ana", Method: "POST", Path: "/v1/posts", Body: `{"text":"first"}`, Header: key}, http.StatusOK); w.Code == http.StatusOK && nodetest.ReadJSON[wire.Post](t, w).Held {
		t.Error("released, and said to be held")
	}

	reply, other := publish("ben", `{"text":"second","reply_to":"`+top.ID.String()+`"}`, nil), publish("carl", `{"text":"third","reply_to":"`+top.ID.String()+`"}`, nil)
	repost := nodetest.ReadJSON[wire.Post](t, h.Want(nodetest.Request{As: "ben", Method: "PUT", Path: path + "/repost"}, http.StatusCreated)) // nothing of its own waits
	story := h.Publish("ana", `{"audience":"everyone"}`)
	paste := nodetest.ReadJSON[wire.Paste](t, h.Want(nodetest.Request{As: "ana", Method: "POST", Path: "/v1/pastes", Body: `{"content":"words"}`, Header: map[string]string{"Accept": "application/json"}}, http.StatusCreated))
	want := []mayfly.ID{reply.ID, other.ID, story.ID, paste.ID}
	for _, id := range want[2:] {
		h.Want(nodetest.Request{As: "moderator", Method: "PUT", Path: "/v1/holds/" + id.String(), Body: `{"reason":"a court asks"}`, Admin: true}, http.StatusNoContent)
	}
	slices.SortFunc(want, func(a, b mayfly.ID) int { return strings.Compare(a.String(), b.String()) })
	if got := held(); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	count := func() (replies, shown int) {
		t.Helper()
		h.Must(h.Posts().CountChanged(t.Context(), h.Now()))
		thread := nodetest.ReadJSON[wire.Thread](t, h.Get("anonymous", path+"/thread", http.StatusOK))
		return thread.Post.Replies, len(thread.Replies)
	}
	if replies, shown := count(); replies != 0 || shown != 0 {
		t.Errorf("%d replies counted, %d shown, before they are released", replies, shown)
	}
	release(reply.ID)
	if replies, shown := count(); replies != 1 || shown != 1 {
		t.Errorf("%d replies counted, %d shown, when one is released", replies, shown)
	}
	differences, err := h.Posts().VerifyCounts(t.Context(), h.Now(), top.ID)
	if h.Must(err); len(differences) > 0 {
		t.Error(differences)
	}
	if got := held(); len(got) != 3 || slices.Contains(got, reply.ID) || slices.Contains(got, repost.ID) {
		t.Errorf("%v", got)
	}
	h.Machine.Advance(24 * time.Hour) // the story ends, held
	if got := held(); len(got) != 3 {
		t.Errorf("%v", got)
	}
}
