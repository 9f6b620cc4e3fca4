package httpapi_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/fixture/nodetest"
)

// addDeadLetters makes the archive step of items fail until it is a dead letter.
func (h *testNode) addDeadLetters(ids ...mayfly.ID) {
	h.Helper()
	now, ctx := h.Clock().Read().Steady, context.Background()
	var b store.Batch
	for _, id := range ids {
		remind.Write(&b, remind.Reminder{Due: now.Add(time.Minute), ID: id, Step: remind.Archive, Reason: "test"})
	}
	if err := h.Set.Writer.Commit(ctx, &b); err != nil {
		h.Fatal(err)
	}
	fails := func(_ context.Context, b walk.Batch) (all []walk.Failure, _ error) {
		for _, item := range b.Items {
			all = append(all, walk.Failure{Item: item, Err: errors.New("the bucket is unavailable")})
		}
		return all, nil
	}
	for number := range mayfly.Shard(mayfly.Shards) {
		w, err := remind.New(h.Set, walk.NewShard(h.Set.Rows, number, "test", time.Second, now), remind.Acts{remind.Archive: fails}, remind.Options{Tries: 1})
		if err != nil {
			h.Fatal(err)
		}
		if _, err := w.Pass(ctx, now.Add(2*time.Minute)); err != nil {
			h.Fatal(err)
		}
	}
}

func TestDeadLettersAreListedInPagesTriedAgainAndDropped(t *testing.T) {
	h := newTestNode(t)
	var ids []mayfly.ID
	for range 5 {
		ids = append(ids, h.Publish("ana", `{"audience":"everyone"}`).ID)
	}
	h.addDeadLetters(ids...)
	if m := h.Want(nodetest.Request{As: "anonymous", Method: "GET", Path: "/metrics", Admin: true}, 200).Body.String(); !strings.Contains(m, "mayfly_dead_letters 5") {
		t.Error("mayfly_dead_letters is not 5")
	}
	seen, pages := map[mayfly.ID]bool{}, 0
	for next := ""; pages == 0 || next != ""; pages++ {
		page := nodetest.ReadJSON[wire.DeadLetters](t, h.Want(nodetest.Request{As: "admin", Method: "GET", Path: "/v1/dead-letters?limit=2&cursor=" + next, Admin: true}, 200))
		for _, letter := range page.Letters {
			if seen[letter.Item] || letter.Step != "archive" || len(letter.Tries) != 1 || letter.Tries[0].Reason != "the bucket is unavailable" || letter.Attempts != 1 {
				t.Errorf("%+v", letter)
			}
			seen[letter.Item] = true
		}
		next = page.Next
	}
	if len(seen) != 5 || pages < 3 {
		t.Errorf("%d letters on %d pages", len(seen), pages)
	}
	change := func(method, path string, status int) {
		t.Helper()
		h.Want(nodetest.Request{As: "admin", Method: method, Path: "/v1/dead-letters/" + path, Body: `{"reason":"it is back"}`, Admin: true}, status)
	}
	change("POST", ids[0].String()+"/archive/retry", http.StatusNoContent)
	change("POST", ids[0].String()+"/archive/retry", http.StatusNotFound)
	change("DELETE", ids[1].String()+"/archive", http.StatusNoContent)
	change("DELETE", ids[1].String()+"/archive", http.StatusNotFound)
	left := nodetest.ReadJSON[wire.DeadLetters](t, h.Want(nodetest.Request{As: "admin", Method: "GET", Path: "/v1/dead-letters", Admin: true}, 200))
	if len(left.Letters) != 3 {
		t.Errorf("%d dead letters are left", len(left.Letters))
	}
}

func TestARestoredStoryIsServedUntilServesUntilAndNotAMillisecondLonger(t *testing.T) {
	h := newTestNode(t)
	s := h.Publish("ana", `{"audience":"everyone"}`)
	path := "/v1/stories/" + s.ID.String()
	h.Machine.Advance(25 * time.Hour)
	h.Get("anonymous", path, 410)
	restored := nodetest.ReadJSON[wire.Restored](t, h.Want(nodetest.Request{As: "moderator", Method: "POST", Path: "/v1/restores", Body: `{"id":"` + s.ID.String() + `","reason":"by mistake"}`, Admin: true}, 200))
	again := nodetest.ReadJSON[wire.Story](t, h.Get("anonymous", path, 200))
	if again.ServesUntil == nil || *again.ServesUntil != *restored.ServesUntil {
		t.Fatalf("%v, %v", again.ServesUntil, restored.ServesUntil)
	}
	h.Get("anonymous", again.Media[0].URL, 200)
	h.Machine.Advance(restored.ServesUntil.Sub(h.Clock().Read().Now) - time.Millisecond)
	last := nodetest.ReadJSON[wire.Story](t, h.Get("anonymous", path, 200))
	if !strings.Contains(h.Get("anonymous", "/v1/users/~ana/ring", 200).Body.String(), s.ID.String()) {
		t.Error("EARLY: the story has left the ring")
	}
	h.Get("anonymous", last.Media[0].URL, 200)
	h.Machine.Advance(time.Millisecond)
	h.Get("anonymous", path, 410)
	h.Get("anonymous", last.Media[0].URL, 410)
	if strings.Contains(h.Get("anonymous", "/v1/users/~ana/ring", 200).Body.String(), s.ID.String()) {
		t.Error("LATE: the story is in the ring")
	}
	if m := h.Want(nodetest.Request{As: "anonymous", Method: "GET", Path: "/metrics", Admin: true}, 200).Body.String(); !strings.Contains(m, "mayfly_served_after_deadline_total 0") {
		t.Error("mayfly_served_after_deadline_total is not 0")
	}
}

func TestTheAuditLogHasTheActorAndTheReasonOfAHold(t *testing.T) {
	h := newTestNode(t)
	s := h.Publish("ana", `{"audience":"everyone"}`)
	h.Want(nodetest.Request{As: "moderator", Method: "PUT", Path: "/v1/holds/" + s.ID.String(), Body: `{"reason":"a court asks"}`, Admin: true}, http.StatusNoContent)
	page, err := audit.List(context.Background(), h.Set.Rows, audit.Filter{}, audit.Place{}, 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, record := range page.Records {
		if r := record.Entry; r.Verb == audit.Hold && r.Actor == (audit.Actor{Issuer: "mayfly", Subject: "moderator"}) && r.Reason == "a court asks" && r.Subject.Item == s.ID {
			return
		}
	}
	t.Errorf("%+v", page.Records)
}

func TestAnErasedUserHasNoTokensAndNoStories(t *testing.T) {
	c := newScenarioNode(t)
	c.Get("ana", "/v1/me/preflight", 200)
	c.Want(nodetest.Request{As: "admin", Method: "DELETE", Path: "/v1/users/~ana", Body: `{"reason":"she asked"}`, Admin: true}, 200)
	c.Get("ana", "/v1/me/preflight", 401)
	c.Get("anonymous", c.words.Replace("/v1/stories/{all}"), 404)
	c.Get("anonymous", c.words.Replace("{url}"), 404)
	c.Want(nodetest.Request{As: "service", Method: "POST", Path: "/v1/token", Body: `{"user":"~ana"}`}, 403)
	if ring := c.Get("ben", "/v1/users/~ana/ring", 200).Body.String(); !strings.Contains(ring, `"stories":[]`) {
		t.Error(ring)
	}
}
