package client_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/client"
)

func TestPagesAreFollowedByTheirCursorsToTheEnd(t *testing.T) {
	ids := []mayfly.ID{someID(t), someID(t), someID(t)}
	for n := range ids {
		ids[n][0] = byte(n)
	}
	s := newServer(t, answer(200, wire.Archive{Stories: []wire.Story{{ID: ids[0]}, {ID: ids[1]}}, Next: "c/1"}), answer(200, wire.Archive{Stories: []wire.Story{{ID: ids[2]}}}))
	var got []mayfly.ID
	for story, err := range s.client(t, client.Options{}).Archive(t.Context(), client.Period{Day: "2026-01-31"}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, story.ID)
	}
	requests := s.requests()
	if !slices.Equal(got, ids) || len(requests) != 2 || requests[0].query != "day=2026-01-31" || requests[1].query != "cursor=c%2F1&day=2026-01-31" {
		t.Errorf("%v %+v", got, requests)
	}
}

func TestPagesEndWithTheLoopAndAtTheFirstError(t *testing.T) {
	page := answer(200, wire.Users{Users: []mayfly.UserID{{1}, {2}}, Next: "next"})
	s := newServer(t, page)
	for range s.client(t, client.Options{}).CloseFriends(t.Context()) {
		break
	}
	if len(s.requests()) != 1 {
		t.Error("another page was requested")
	}
	s = newServer(t, page, problem(mayfly.Invalid, 400))
	users, failures := 0, 0
	for _, err := range s.client(t, client.Options{}).Blocks(t.Context()) {
		if err != nil {
			failures++
			if !errors.Is(err, mayfly.Invalid) {
				t.Error(err)
			}
			continue
		}
		users++
	}
	if users != 2 || failures != 1 {
		t.Errorf("%d users, %d failures", users, failures)
	}
	s = newServer(t, page) // the cursor does not change
	users = 0
	for range s.client(t, client.Options{}).Blocks(t.Context()) {
		users++
	}
	if users != 4 {
		t.Errorf("%d users from a server that repeats its cursor", users)
	}
}

func TestEveryMethodCallsItsRoute(t *testing.T) {
	id := someID(t)
	text := id.String()
	for want, do := range map[string]func(*client.Client) error{
		"GET /v1/stories/" + text:            func(c *client.Client) error { _, err := c.Story(t.Context(), id); return err },
		"DELETE /v1/stories/" + text:         func(c *client.Client) error { return c.Delete(t.Context(), id) },
		"POST /v1/stories/" + text + "/view": func(c *client.Client) error { return c.View(t.Context(), id) },
		"POST /v1/stories/" + text + "/reshare": func(c *client.Client) error {
			_, err := c.Reshare(t.Context(), id, wire.Reshare{}, "")
			return err
		},
		"GET /v1/stories/" + text + "/viewers": func(c *client.Client) error {
			for _, err := range c.Viewers(t.Context(), id, new(int)) {
				return err
			}
			return nil
		},
		"GET /v1/users/~ana/ring":                func(c *client.Client) error { _, err := c.Ring(t.Context(), "~ana"); return err },
		"GET /v1/users/~a%2Fb/ring":              func(c *client.Client) error { _, err := c.Ring(t.Context(), "~a/b"); return err },
		"PUT /v1/me/close-friends/~ben":          func(c *client.Client) error { return c.AddCloseFriend(t.Context(), "~ben") },
		"DELETE /v1/me/close-friends/~ben":       func(c *client.Client) error { return c.RemoveCloseFriend(t.Context(), "~ben") },
		"PUT /v1/me/blocks/~ben":                 func(c *client.Client) error { return c.Block(t.Context(), "~ben") },
		"DELETE /v1/me/blocks/~ben":              func(c *client.Client) error { return c.Unblock(t.Context(), "~ben") },
		"PUT /v1/users/~ana/followers/~ben":      func(c *client.Client) error { return c.AddFollower(t.Context(), "~ana", "~ben") },
		"DELETE /v1/users/~ana/followers/~ben":   func(c *client.Client) error { return c.RemoveFollower(t.Context(), "~ana", "~ben") },
		"GET /v1/explain/" + text:                func(c *client.Client) error { _, err := c.Explain(t.Context(), id, "~ben", 5); return err },
		"GET /v1/walks":                          func(c *client.Client) error { _, err := c.Walks(t.Context()); return err },
		"GET /readyz":                            func(c *client.Client) error { _, err := c.Ready(t.Context(), "api"); return err },
		"PUT /v1/holds/" + text:                  func(c *client.Client) error { return c.Hold(t.Context(), id, "why") },
		"DELETE /v1/holds/" + text:               func(c *client.Client) error { return c.Release(t.Context(), id, "why") },
		"DELETE /v1/users/~ana":                  func(c *client.Client) error { _, err := c.EraseAccount(t.Context(), "~ana", "why"); return err },
		"DELETE /v1/dead-letters/" + text + "/a": func(c *client.Client) error { return c.DropDeadLetter(t.Context(), id, "a", "why") },
		"POST /v1/dead-letters/" + text + "/a/retry": func(c *client.Client) error {
			return c.RetryDeadLetter(t.Context(), id, "a", "why")
		},
		"GET /v1/dead-letters": func(c *client.Client) error {
			for _, err := range c.DeadLetters(t.Context()) {
				return err
			}
			return nil
		},
	} {
		s := newServer(t, answer(200, struct{}{}))
		if err := do(s.client(t, client.Options{})); err != nil {
			t.Errorf("%s: %v", want, err)
		}
		if a := s.requests()[0]; a.method+" "+a.path != want {
			t.Errorf("called %s %s, want %s", a.method, a.path, want)
		}
	}
}

func TestANodeThatIsNotReadyIsNotAnError(t *testing.T) {
	s := newServer(t, answer(503, wire.Health{Roles: map[string]string{"walk": "late"}}))
	if h, err := s.client(t, client.Options{}).Ready(t.Context(), "walk"); err != nil || h.Ready || h.Roles["walk"] != "late" {
		t.Error(h, err)
	}
}
