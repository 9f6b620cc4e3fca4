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
)

// addDeadLetters makes the archive step of items fail until it is a dead letter.
func (h *testNode) addDeadLetters(ids ...mayfly.ID) {
	h.t.Helper()
	now, ctx := h.node.Clock().Read().Steady, context.Background()
	var b store.Batch
	for _, id := range ids {
		remind.Write(&b, remind.Reminder{Due: now.Add(time.Minute), ID: id, Step: remind.Archive, Reason: "test"})
	}
	if err := h.set.Writer.Commit(ctx, &b); err != nil {
		h.t.Fatal(err)
	}
	fails := func(_ context.Context, b walk.Batch) (all []walk.Failure, _ error) {
		for _, item := range b.Items {
			all = append(all, walk.Failure{Item: item, Err: errors.New("the bucket is unavailable")})
		}
		return all, nil
	}
	for number := range mayfly.Shard(mayfly.Shards) {
		w, err := remind.New(h.set, walk.NewShard(h.set.Rows, number, "test", time.Second, now), remind.Acts{remind.Archive: fails}, remind.Options{Tries: 1})
		if err != nil {
			h.t.Fatal(err)
		}
		if _, err := w.Pass(ctx, now.Add(2*time.Minute)); err != nil {
			h.t.Fatal(err)
		}
	}
}

func TestDeadLettersAreListedInPagesTriedAgainAndDropped(t *testing.T) {
	h := newTestNode(t)
	var ids []mayfly.ID
	for range 5 {
		ids = append(ids, h.publish("ana", `{"audience":"everyone"}`).ID)
	}
	h.addDeadLetters(ids...)
	if m := h.must(request{as: "anonymous", method: "GET", path: "/metrics", admin: true}, 200).Body.String(); !strings.Contains(m, "mayfly_dead_letters 5") {
		t.Error("mayfly_dead_letters is not 5")
	}
	seen, pages := map[mayfly.ID]bool{}, 0
	for next := ""; pages == 0 || next != ""; pages++ {
		page := read[wire.DeadLetters](t, h.must(request{as: "admin", method: "GET", path: "/v1/dead-letters?limit=2&cursor=" + next, admin: true}, 200))
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
		h.must(request{as: "admin", method: method, path: "/v1/dead-letters/" + path, body: `{"reason":"it is back"}`, admin: true}, status)
	}
	change("POST", ids[0].String()+"/archive/retry", http.StatusNoContent)
	change("POST", ids[0].String()+"/archive/retry", http.StatusNotFound)
	change("DELETE", ids[1].String()+"/archive", http.StatusNoContent)
	change("DELETE", ids[1].String()+"/archive", http.StatusNotFound)
	left := read[wire.DeadLetters](t, h.must(request{as: "admin", method: "GET", path: "/v1/dead-letters", admin: true}, 200))
	if len(left.Letters) != 3 {
		t.Errorf("%d dead letters are left", len(left.Letters))
	}
}

func TestARestoredStoryIsServedUntilServesUntilAndNotAMillisecondLonger(t *testing.T) {
	h := newTestNode(t)
	s := h.publish("ana", `{"audience":"everyone"}`)
	path := "/v1/stories/" + s.ID.String()
	h.machine.Advance(25 * time.Hour)
	h.get("anonymous", path, 410)
	restored := read[wire.Restored](t, h.must(request{as: "moderator", method: "POST", path: "/v1/restores", body: `{"id":"` + s.ID.String() + `","reason":"by mistake"}`, admin: true}, 200))
	again := read[wire.Story](t, h.get("anonymous", path, 200))
	if again.ServesUntil == nil || *again.ServesUntil != *restored.ServesUntil {
		t.Fatalf("%v, %v", again.ServesUntil, restored.ServesUntil)
	}
	h.get("anonymous", again.Media[0].URL, 200)
	h.machine.Advance(restored.ServesUntil.Sub(h.node.Clock().Read().Now) - time.Millisecond)
	last := read[wire.Story](t, h.get("anonymous", path, 200))
	if !strings.Contains(h.get("anonymous", "/v1/users/~ana/ring", 200).Body.String(), s.ID.String()) {
		t.Error("EARLY: the story has left the ring")
	}
	h.get("anonymous", last.Media[0].URL, 200)
	h.machine.Advance(time.Millisecond)
	h.get("anonymous", path, 410)
	h.get("anonymous", last.Media[0].URL, 410)
	if strings.Contains(h.get("anonymous", "/v1/users/~ana/ring", 200).Body.String(), s.ID.String()) {
		t.Error("LATE: the story is in the ring")
	}
	if m := h.must(request{as: "anonymous", method: "GET", path: "/metrics", admin: true}, 200).Body.String(); !strings.Contains(m, "mayfly_served_after_deadline_total 0") {
		t.Error("mayfly_served_after_deadline_total is not 0")
	}
}

func TestTheAuditLogHasTheActorAndTheReasonOfAHold(t *testing.T) {
	h := newTestNode(t)
	s := h.publish("ana", `{"audience":"everyone"}`)
	h.must(request{as: "moderator", method: "PUT", path: "/v1/holds/" + s.ID.String(), body: `{"reason":"a court asks"}`, admin: true}, http.StatusNoContent)
	page, err := audit.List(context.Background(), h.set.Rows, audit.Filter{}, audit.Place{}, 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, record := range page.Records {
		if r := record.Entry; r.Verb == audit.Hold && strings.Contains(r.Actor, "moderator") && r.Reason == "a court asks" && r.Subject.Item == s.ID {
			return
		}
	}
	t.Errorf("%+v", page.Records)
}

func TestAnErasedUserHasNoTokensAndNoStories(t *testing.T) {
	c := newScenarioNode(t)
	c.get("ana", "/v1/me/preflight", 200)
	c.must(request{as: "admin", method: "DELETE", path: "/v1/users/~ana", body: `{"reason":"she asked"}`, admin: true}, 200)
	c.get("ana", "/v1/me/preflight", 401)
	c.get("anonymous", c.words.Replace("/v1/stories/{all}"), 404)
	c.get("anonymous", c.words.Replace("{url}"), 404)
	c.must(request{as: "service", method: "POST", path: "/v1/token", body: `{"user":"~ana"}`}, 403)
	if ring := c.get("ben", "/v1/users/~ana/ring", 200).Body.String(); !strings.Contains(ring, `"stories":[]`) {
		t.Error(ring)
	}
}
