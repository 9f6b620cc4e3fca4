package httpapi_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/httpapi"
	"github.com/mayflyhq/mayfly/test/fixture"
	"github.com/mayflyhq/mayfly/test/fixture/nodetest"
)

// slowMedium is a medium whose first byte takes a while.
type slowMedium struct {
	*strings.Reader
	wait func()
}

func (m slowMedium) Read(p []byte) (int, error) {
	m.wait()
	return m.Reader.Read(p)
}

// edged returns the handler of an API with a route that sends a medium, and one
// that sends JSON; each takes as long as wait does.
func edged(t *testing.T, n *nodetest.Node, edge bool, m httpapi.Media, wait func()) http.Handler {
	t.Helper()
	routes := []httpapi.Route{
		{Method: "GET", Pattern: "/v1/medium", ID: "medium", Tag: "test", Product: "test", Handle: func(c *httpapi.Call) error {
			sent := m
			sent.ReadSeeker, sent.Type, sent.Size = slowMedium{strings.NewReader("bytes"), wait}, "text/plain", 5
			return c.ServeMedia(sent)
		}},
		{Method: "GET", Pattern: "/v1/json", ID: "json", Tag: "test", Product: "test", Handle: func(c *httpapi.Call) error {
			wait()
			c.CacheShared(m.Keys, m.End, m.Cache)
			return c.Deliver(http.StatusOK, map[string]string{})
		}},
	}
	api, err := httpapi.New(httpapi.Options{Accounts: n.Accounts(), Clock: n.Clock(), Routes: routes, Edge: edge})
	n.Must(err)
	return api.Public()
}

func TestAnAnswerForTheEdgeCarriesItsKeysAndItsEnd(t *testing.T) {
	n := nodetest.Start(t, nodetest.Options{})
	id, err := mayfly.NewID(fixture.Start, fixture.Lifetime(n, time.Hour), fixture.Ana().Trace(), 7)
	n.Must(err)
	end := n.Now().Add(time.Hour + 7*time.Millisecond)
	item, owner := "i-"+id.String(), "o-"+fixture.Ana().String()
	until := strconv.FormatInt(int64(end), 10)
	until = until[:len(until)-3] + "." + until[len(until)-3:]
	for name, row := range map[string]struct {
		edge                 bool
		end                  mayfly.Instant
		owner                mayfly.UserID
		keys, until, control string
	}{
		"of a user":       {true, end, fixture.Ana(), item + " " + owner, until, "public, max-age=60, s-maxage=300, stale-while-revalidate=0, stale-if-error=0"},
		"without an end":  {true, 0, mayfly.UserID{}, item, "", "public, max-age=60, s-maxage=300, stale-while-revalidate=0, stale-if-error=0"},
		"about to end":    {true, n.Now().Add(2 * time.Second), fixture.Ana(), "", "", "private, no-store"},
		"without an edge": {false, end, fixture.Ana(), "", "", "public, max-age=60, s-maxage=300, stale-while-revalidate=0, stale-if-error=0"},
	} {
		m := httpapi.Media{End: row.end, Cache: 300 * time.Second, Keys: httpapi.CacheKeys{Item: id, Owner: row.owner}}
		h := edged(t, n, row.edge, m, func() {})
		for _, path := range []string{"/v1/medium", "/v1/json"} {
			w := get(h, path, "")
			got := [...]string{w.Header().Get("Surrogate-Key"), w.Header().Get("Mayfly-Until"), w.Header().Get("Cache-Control")}
			if w.Code != http.StatusOK || got != [...]string{row.keys, row.until, row.control} {
				t.Errorf("%s, %s: %d %q", path, name, w.Code, got)
			}
		}
	}
}

// Caches count from when they get an answer: one that takes four of the ten seconds
// that its item has left may be kept for four and not for eight.
func TestHowLongAnAnswerIsCachedCountsFromWhenItIsSent(t *testing.T) {
	n := nodetest.Start(t, nodetest.Options{})
	for _, path := range []string{"/v1/medium", "/v1/json"} {
		for _, row := range []struct {
			left, urlLeft, takes time.Duration
			want                 string
		}{
			{10 * time.Second, 0, 0, "public, max-age=8, s-maxage=8, stale-while-revalidate=0, stale-if-error=0"},
			{10 * time.Second, 0, 4 * time.Second, "public, max-age=4, s-maxage=4, stale-while-revalidate=0, stale-if-error=0"},
			{10 * time.Second, 0, 7001 * time.Millisecond, "private, no-store"},
			{time.Hour, 20 * time.Second, 4 * time.Second, "public, max-age=16, s-maxage=16, stale-while-revalidate=0, stale-if-error=0"},
		} {
			m := httpapi.Media{End: n.Now().Add(row.left), Cache: 60 * time.Second}
			if row.urlLeft != 0 {
				if path == "/v1/json" {
					continue
				}
				m.URLUntil = n.Now().Add(row.urlLeft)
			}
			w := get(edged(t, n, true, m, func() { n.Machine.Advance(row.takes) }), path, "")
			if got := w.Header().Get("Cache-Control"); w.Code != http.StatusOK || got != row.want {
				t.Errorf("%s, %+v: %d %s", path, row, w.Code, got)
			}
		}
	}
}

func TestAnAnswerThatEndedBeforeItWasSentCarriesNoKeys(t *testing.T) {
	n := nodetest.Start(t, nodetest.Options{})
	m := httpapi.Media{End: n.Now().Add(10 * time.Second), Cache: 60 * time.Second}
	for _, path := range []string{"/v1/medium", "/v1/json"} {
		w := get(edged(t, n, true, m, func() { n.Machine.Advance(11 * time.Second) }), path, "")
		if h := w.Header(); w.Code != http.StatusGone || h.Get("Surrogate-Key")+h.Get("Mayfly-Until") != "" || h.Get("Cache-Control") != "private, no-store" {
			t.Errorf("%s: %d %v", path, w.Code, h)
		}
	}
}
