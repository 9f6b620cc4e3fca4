package client_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/client"
)

func mediumOf(b []byte) wire.Medium {
	sum := sha256.Sum256(b)
	return wire.Medium{Size: int64(len(b)), SHA256: hex.EncodeToString(sum[:]), URL: "/v1/media/x/0?sig=1"}
}

func TestAnInterruptedDownloadIsResumed(t *testing.T) {
	whole := []byte(strings.Repeat("0123456789", 10_000))
	half := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100000")
		_, _ = w.Write(whole[:40_000])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	rest := func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(whole))
	}
	all := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(whole) }
	for name, second := range map[string]http.HandlerFunc{"range": rest, "no range": all} {
		s := newServer(t, half, second)
		var got bytes.Buffer
		var reported int64
		err := s.client(t, client.Options{}).Download(t.Context(), mediumOf(whole), &got, func(done, _ int64) { reported = done })
		if err != nil || !bytes.Equal(got.Bytes(), whole) || reported != int64(len(whole)) {
			t.Errorf("%s: %v, %d bytes, reported %d", name, err, got.Len(), reported)
		}
		if requests := s.requests(); len(requests) != 2 || !strings.HasPrefix(requests[1].header.Get("Range"), "bytes=") || requests[0].query != "sig=1" {
			t.Errorf("%s: %+v", name, requests)
		}
	}
}

func TestADownloadOfWrongBytesIsCorrupt(t *testing.T) {
	whole := []byte("what was published")
	for name, sent := range map[string]string{"changed": "what was publishes", "short": "what was", "long": "what was published and more"} {
		s := newServer(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(sent)) })
		if err := s.client(t, client.Options{}).Download(t.Context(), mediumOf(whole), new(bytes.Buffer), nil); !errors.Is(err, mayfly.Corrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestATokenIsSentToItsServerOnly(t *testing.T) {
	whole := []byte("x")
	other := newServer(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(whole) })
	own := newServer(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(whole) })
	c := own.client(t, client.Options{Token: "secret", ActFor: "~ana"})
	m := mediumOf(whole)
	if err := c.Download(t.Context(), m, new(bytes.Buffer), nil); err != nil {
		t.Fatal(err)
	}
	m.URL = other.URL + m.URL
	if err := c.Download(t.Context(), m, new(bytes.Buffer), nil); err != nil {
		t.Fatal(err)
	}
	if h := own.requests()[0].header; h.Get("Authorization") != "Bearer secret" || h.Get("Mayfly-User") != "~ana" {
		t.Error("the token was not sent to its server")
	}
	if h := other.requests()[0].header; h.Get("Authorization") != "" || h.Get("Mayfly-User") != "" {
		t.Error("the token was sent to another server")
	}
}

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
