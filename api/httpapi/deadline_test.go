package httpapi_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/engine/clock"
	"github.com/mayflyhq/mayfly/test/fixture"
	"github.com/mayflyhq/mayfly/test/fixture/nodetest"
)

func TestAStoryIsGoneFromEveryRouteAtTheMillisecondOfItsDeadline(t *testing.T) {
	h := newTestNode(t)
	h.Follow("ana", "ben")
	s := h.Publish("ana", `{"audience":"followers"}`)
	h.Machine.Advance(24*time.Hour - time.Millisecond)
	path := "/v1/stories/" + s.ID.String()
	before := nodetest.ReadJSON[wire.Story](t, h.Get("ben", path, 200))
	if before.Media[0].URLUntil != s.ExpiresAt {
		t.Errorf("a URL is valid until %s, want the deadline %s", before.Media[0].URLUntil, s.ExpiresAt)
	}
	ring := "/v1/users/~ana/ring"
	urls := []string{before.Media[0].URL, before.Media[0].Renditions[0].URL, before.Media[0].Renditions[1].URL}
	for _, url := range append(urls, "/v1/media/"+s.ID.String()+"/0", path) {
		h.Get("ben", url, 200)
	}
	h.Want(nodetest.Request{As: "ben", Method: "POST", Path: path + "/view"}, 204)
	if !strings.Contains(h.Get("ben", ring, 200).Body.String(), s.ID.String()) {
		t.Error("EARLY: the story has left the ring")
	}
	h.Machine.Advance(time.Millisecond)
	for _, url := range append(urls, "/v1/media/"+s.ID.String()+"/0", path) {
		h.Get("ben", url, 410)
	}
	h.Want(nodetest.Request{As: "ben", Method: "POST", Path: path + "/view"}, 410)
	if strings.Contains(h.Get("ben", ring, 200).Body.String(), s.ID.String()) {
		t.Error("LATE: the story is in the ring")
	}
	after := nodetest.ReadJSON[wire.Story](t, h.Get("ana", path, 200))
	if got := after.Media[0].URLUntil.Sub(h.Clock().Read().Now); got > time.Hour || got < 30*time.Minute {
		t.Errorf("a URL of the archive is valid for %s", got)
	}
	h.Get("anonymous", after.Media[0].URL, 200)
	if m := h.Want(nodetest.Request{Method: "GET", Path: "/metrics", As: "anonymous", Admin: true}, 200).Body.String(); !strings.Contains(m, "mayfly_served_after_deadline_total 0") {
		t.Error("served after the deadline")
	}
}

// steppingClock is a clock that advances at the n-th time it is read, so that the
// deadline can be placed at any point of a request.
type steppingClock struct {
	machine *clock.Manual
	reads   atomic.Int64
	at      atomic.Int64 // the read at which the time moves; 0: never
	by      time.Duration
}

func (c *steppingClock) source() clock.Source {
	source := c.machine.Source()
	read := source.Read
	source.Read = func() clock.Moment {
		if at := c.at.Load(); at != 0 && c.reads.Add(1) == at {
			c.machine.Advance(c.by)
		}
		return read()
	}
	return source
}

func TestAStoryThatEndsWhileItsAnswerIsMadeIsNotSent(t *testing.T) {
	slow := &steppingClock{machine: clock.NewManual(fixture.Start), by: time.Millisecond}
	h := nodetest.Serve(t, nodetest.Options{Node: func(o *node.Options) { o.Source = slow.source() }})
	h.Follow("ana", "ben")
	kept, withheld := 0, 0
	for at := int64(1); at <= 12; at++ {
		for _, route := range []string{"story", "medium", "ring", "tray"} {
			s := h.Publish("ana", `{"audience":"everyone"}`)
			slow.machine.Advance(24*time.Hour - time.Millisecond)
			path := map[string]string{
				"story": "/v1/stories/" + s.ID.String(), "ring": "/v1/users/~ana/ring", "tray": "/v1/me/tray",
				"medium": nodetest.ReadJSON[wire.Story](t, h.Get("anonymous", "/v1/stories/"+s.ID.String(), 200)).Media[0].URL,
			}[route]
			as := "anonymous"
			if route == "tray" {
				as = "ben"
			}
			slow.reads.Store(0)
			slow.at.Store(at)
			w := h.Do(nodetest.Request{As: as, Method: "GET", Path: path})
			slow.at.Store(0)
			has := w.Code == 200 && (route != "ring" && route != "tray" || strings.Contains(w.Body.String(), s.ID.String()))
			switch moved := slow.reads.Load() >= at; {
			case has && moved:
				t.Errorf("LATE: a %s was sent although it ended at read %d of the clock", route, at)
			case !has && !moved:
				t.Errorf("EARLY: a %s was not sent: %d", route, w.Code)
			case has:
				kept++
			default:
				withheld++
			}
		}
	}
	t.Logf("%d sent, %d withheld", kept, withheld)
	if kept == 0 || withheld == 0 {
		t.Errorf("%d sent and %d withheld: the deadline was never within a request", kept, withheld)
	}
	if m := h.Want(nodetest.Request{Method: "GET", Path: "/metrics", As: "anonymous", Admin: true}, 200).Body.String(); !strings.Contains(m, "mayfly_served_after_deadline_total 0") {
		t.Error("served after the deadline")
	}
}

func TestAMediumIsNotCachedPastTheEndOfItsStory(t *testing.T) {
	h := newTestNode(t)
	s := h.Publish("ana", `{"audience":"everyone","lifetime":"6h"}`)
	path := "/v1/stories/" + s.ID.String()
	at := func(left time.Duration) string {
		h.Machine.Advance(s.ExpiresAt.Sub(h.Clock().Read().Now) - left)
		url := nodetest.ReadJSON[wire.Story](t, h.Get("anonymous", path, 200)).Media[0].URL
		return h.Get("anonymous", url, 200).Header().Get("Cache-Control")
	}
	// An hour before the end the URL itself has 42 s left, and is not cached longer than that.
	for _, row := range []struct {
		left time.Duration
		want string
	}{
		{time.Hour, "public, max-age=42, s-maxage=42, stale-while-revalidate=0, stale-if-error=0"},
		{20 * time.Second, "public, max-age=18, s-maxage=18, stale-while-revalidate=0, stale-if-error=0"},
		{4999 * time.Millisecond, "public, max-age=2, s-maxage=2, stale-while-revalidate=0, stale-if-error=0"},
		{3 * time.Second, "public, max-age=1, s-maxage=1, stale-while-revalidate=0, stale-if-error=0"},
		{2999 * time.Millisecond, "private, no-store"},
		{time.Millisecond, "private, no-store"},
	} {
		if got := at(row.left); got != row.want {
			t.Errorf("with %s left: %s, want %s", row.left, got, row.want)
		}
	}
}

func TestAMediaURLExpiresWithinAMinute(t *testing.T) {
	h := newTestNode(t)
	s := h.Publish("ana", `{"audience":"everyone"}`)
	for range 200 {
		m := nodetest.ReadJSON[wire.Story](t, h.Get("anonymous", "/v1/stories/"+s.ID.String(), 200)).Media[0]
		left := m.URLUntil.Sub(h.Clock().Read().Now)
		if left <= 0 || left > time.Minute {
			t.Fatalf("a URL is valid for %s", left)
		}
		h.Get("anonymous", m.URL, 200)
		h.Machine.Advance(left - time.Millisecond)
		h.Get("anonymous", m.URL, 200)
		h.Machine.Advance(time.Millisecond)
		h.Get("anonymous", m.URL, 404)
		h.Machine.Advance(777 * time.Millisecond)
	}
}
