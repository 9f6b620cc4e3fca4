package node_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/engine/clock"
	"github.com/mayflyhq/mayfly/engine/edge"
	"github.com/mayflyhq/mayfly/test/fixture"
	"github.com/mayflyhq/mayfly/test/fixture/nodetest"
)

// edgeServer is a node with a cache in front of it; it works on the real clock.
func edgeServer(t *testing.T) (*nodetest.Server, *fixture.Cache) {
	cache := fixture.NewCache(t)
	return nodetest.Serve(t, nodetest.Options{
		Config: func(c *config.Config) { c.Edge.Varnish, c.Edge.Secret = []string{cache.URL}, fixture.PurgeSecret },
		Node:   func(o *node.Options) { o.Idle, o.Source = false, clock.System() },
	}), cache
}

// purged waits until the cache has been asked to drop a key.
func purged(t *testing.T, cache *fixture.Cache, key string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		keys, err := cache.Purged.Wait(ctx)
		if err != nil {
			t.Fatalf("%s was not purged: %v", key, err)
		}
		if slices.Contains(strings.Fields(keys), key) {
			return
		}
	}
}

func TestADeleteAHoldAndABlockArePurgedAtTheEdge(t *testing.T) {
	s, cache := edgeServer(t)
	for what, do := range map[string]func(wire.Story) string{
		"delete": func(st wire.Story) string {
			s.Want(nodetest.Request{As: "ana", Method: http.MethodDelete, Path: "/v1/stories/" + st.ID.String()}, http.StatusNoContent)
			return edge.ItemKey(st.ID)
		},
		"hold": func(st wire.Story) string {
			s.Want(nodetest.Request{As: "moderator", Method: http.MethodPut, Path: "/v1/holds/" + st.ID.String(), Body: `{"reason":"a complaint"}`, Admin: true}, http.StatusNoContent)
			return edge.ItemKey(st.ID)
		},
		"block": func(wire.Story) string {
			s.Want(nodetest.Request{As: "ana", Method: http.MethodPut, Path: "/v1/me/blocks/~ben"}, http.StatusNoContent)
			return edge.OwnerKey(nodetest.User("ana"))
		},
	} {
		st := s.Publish("ana", `{"audience":"everyone"}`)
		url := nodetest.ReadJSON[wire.Story](t, s.Get("anonymous", "/v1/stories/"+st.ID.String(), 200)).Media[0].URL
		got := s.Get("anonymous", url, 200).Header().Get("Surrogate-Key")
		if want := edge.ItemKey(st.ID) + " " + edge.OwnerKey(nodetest.User("ana")); got != want {
			t.Errorf("Surrogate-Key %q, want %q", got, want)
		}
		cache.Fill(strings.Fields(got)...)
		key := do(st)
		purged(t, cache, key)
		if left := cache.Keys(); slices.Contains(left, key) {
			t.Errorf("%s: still cached: %v", what, left)
		}
	}
	m := s.Want(nodetest.Request{As: "anonymous", Method: http.MethodGet, Path: "/metrics", Admin: true}, 200).Body.String()
	for _, want := range []string{"mayfly_edge_purges_total", "mayfly_edge_unverified_age_seconds", `mayfly_consumer_lag{group="edge",stream="ends"}`} {
		if !strings.Contains(m, want) {
			t.Errorf("/metrics has no %s", want)
		}
	}
}

func TestAPurgeThatTheEdgeDoesNotAnswerIsListedAndExplained(t *testing.T) {
	s, cache := edgeServer(t)
	cache.SetDown(true)
	st := s.Publish("ana", `{"audience":"everyone"}`)
	s.Want(nodetest.Request{As: "ana", Method: http.MethodDelete, Path: "/v1/stories/" + st.ID.String()}, http.StatusNoContent)
	list := func() wire.Purges {
		return nodetest.ReadJSON[wire.Purges](t, s.Want(nodetest.Request{As: "admin", Method: http.MethodGet, Path: "/v1/purges?limit=1", Admin: true}, 200))
	}
	until := time.Now().Add(20 * time.Second)
	for len(list().Purges) == 0 {
		if time.Now().After(until) {
			t.Fatal("no purge is listed")
		}
		time.Sleep(10 * time.Millisecond)
	}
	page := list()
	if p := page.Purges[0]; p.Key != edge.ItemKey(st.ID) || p.Cause != "story.deleted" || p.Attempts != 1 || !strings.Contains(p.Reason, "502") || page.Next == "" {
		t.Errorf("%+v", page)
	}
	if next := nodetest.ReadJSON[wire.Purges](t, s.Want(nodetest.Request{As: "admin", Method: http.MethodGet, Path: "/v1/purges?cursor=" + page.Next, Admin: true}, 200)); len(next.Purges) != 0 {
		t.Errorf("behind the last one: %+v", next)
	}
	explain := func() wire.Explanation {
		return nodetest.ReadJSON[wire.Explanation](t, s.Want(nodetest.Request{As: "admin", Method: http.MethodGet, Path: "/v1/explain/" + st.ID.String(), Admin: true}, 200))
	}
	const sentence = "A purge of the edge is not verified"
	if e := explain(); !strings.Contains(strings.Join(e.Sentences, "\n"), sentence) {
		t.Errorf("%v", e.Sentences)
	}
	cache.SetDown(false)
	for until := time.Now().Add(30 * time.Second); len(list().Purges) > 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("the purge is not verified")
		}
	}
	if e := explain(); strings.Contains(strings.Join(e.Sentences, "\n"), sentence) {
		t.Errorf("%v", e.Sentences)
	}
}

func TestWithoutAnEdgeNothingIsNamedOrPurged(t *testing.T) {
	s := nodetest.Serve(t, nodetest.Options{})
	st := s.Publish("ana", `{"audience":"everyone"}`)
	url := nodetest.ReadJSON[wire.Story](t, s.Get("anonymous", "/v1/stories/"+st.ID.String(), 200)).Media[0].URL
	if h := s.Get("anonymous", url, 200).Header(); h.Get("Surrogate-Key")+h.Get("Mayfly-Until") != "" {
		t.Errorf("%v", h)
	}
	s.Want(nodetest.Request{As: "ana", Method: http.MethodPut, Path: "/v1/me/blocks/~ben"}, http.StatusNoContent)
	for p, err := range edge.List(t.Context(), s.Real.Rows, s.Now(), "") {
		t.Errorf("%+v, %v", p, err)
	}
}

// What is for everyone may be in caches. When its account becomes private, all of it is
// purged, and nothing of it is cached again.
func TestThePostsOfAnAccountThatBecomesPrivateArePurgedAtTheEdge(t *testing.T) {
	s, cache := edgeServer(t)
	body, typ := nodetest.Form(t, "media", string(fixture.Photo(t, 1)))
	p := nodetest.ReadJSON[wire.Post](t, s.Want(nodetest.Request{As: "ana", Method: http.MethodPost, Path: "/v1/posts", Type: typ, Body: body}, http.StatusCreated))
	url := nodetest.ReadJSON[wire.Post](t, s.Get("anonymous", "/v1/posts/"+p.ID.String(), 200)).Media[0].URL
	got := s.Get("anonymous", url, 200).Header().Get("Surrogate-Key")
	owner := edge.OwnerKey(nodetest.User("ana"))
	if want := edge.ItemKey(p.ID) + " " + owner; got != want {
		t.Errorf("Surrogate-Key %q, want %q", got, want)
	}
	cache.Fill(strings.Fields(got)...)
	s.Want(nodetest.Request{As: "ana", Method: http.MethodPatch, Path: "/v1/me/profile", Body: `{"private":true}`}, http.StatusOK)
	purged(t, cache, owner)
	if left := cache.Keys(); slices.Contains(left, owner) {
		t.Errorf("still cached: %v", left)
	}
	s.Follow("ana", "ben")
	url = nodetest.ReadJSON[wire.Post](t, s.Get("ben", "/v1/posts/"+p.ID.String(), 200)).Media[0].URL
	if h := s.Get("anonymous", url, 200).Header(); h.Get("Surrogate-Key") != "" || !strings.Contains(h.Get("Cache-Control"), "no-store") {
		t.Errorf("%v", h)
	}
}
