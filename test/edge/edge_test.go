package edge_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/engine/clock"
	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/fixture"
	"github.com/mayflyhq/mayfly/test/fixture/nodetest"
)

// purging says what becomes of the purges of a node.
type purging string

const (
	on      purging = "purge on"
	off     purging = "purge off"     // the node does not even try
	failing purging = "purge failing" // no server is where it sends them
)

// edge is a node with varnish in front, and a way between the two that may be slow.
type edge struct {
	*nodetest.Server
	*varnish
	delays sync.Map // time.Duration, by the path of a medium
}

// most is how long a media URL of these nodes is valid, and so the cap of what
// varnish keeps; half of it at least, which is longer than the short lifetimes.
const most = 20 * time.Second

func startEdge(t *testing.T, p purging) *edge {
	t.Helper()
	e := &edge{}
	var target atomic.Pointer[url.URL]
	way := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if target.Load() == nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		proxy := httputil.ReverseProxy{
			Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target.Load()) },
			ModifyResponse: func(answer *http.Response) error {
				if delay, ok := e.delays.Load(answer.Request.URL.Path); ok {
					time.Sleep(delay.(time.Duration))
				}
				return nil
			},
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(way.Close)
	e.varnish = startVarnish(t, way.URL)
	e.Server = nodetest.Serve(t, nodetest.Options{
		Config: func(c *config.Config) {
			c.Edge.Varnish, c.Edge.Secret = []string{e.url}, fixture.PurgeSecret
			if p == failing {
				c.Edge.Varnish = []string{"http://" + freeAddress(t)}
			}
			c.Pastes.ShortestLifetime = fixture.Lifetime(t, 8*time.Second)
			c.Stories.URLs = most
			c.Stories.Lifetimes = nil
			for _, d := range []time.Duration{24 * time.Hour, 9 * time.Second, 8 * time.Second} {
				c.Stories.Lifetimes = append(c.Stories.Lifetimes, fixture.Lifetime(t, d))
			}
		},
		Node: func(o *node.Options) { o.Idle, o.Source = p == off, clock.System() },
	})
	for _, role := range []string{"ana", "moderator", "admin"} {
		e.Token(role) // made before tests use them side by side
	}
	serving := httptest.NewServer(e.Handlers.Public())
	t.Cleanup(serving.Close)
	at, err := url.Parse(serving.URL)
	must(t, err)
	target.Store(at)
	return e
}

// publish publishes a story for everyone, and returns it with the URL of its medium,
// which takes a while from the node to varnish.
func (e *edge) publish(t *testing.T, lifetime string, delay time.Duration) (wire.Story, string) {
	t.Helper()
	s := e.Publish("ana", `{"audience":"everyone","lifetime":"`+lifetime+`"}`)
	at := nodetest.ReadJSON[wire.Story](t, e.Get("anonymous", "/v1/stories/"+s.ID.String(), 200)).Media[0].URL
	path, _, _ := strings.Cut(at, "?")
	e.delays.Store(path, delay)
	return s, at
}

// asked is a request through varnish and its answer.
type asked struct {
	at mayfly.Instant // when it was sent, by the node's clock
	answer
}

// readers are how many readers poll one URL.
const readers = 4

// poll asks for a URL without a pause until done is closed, and returns all of it.
func (e *edge) poll(path string, done <-chan struct{}, headers ...string) []asked {
	var mu sync.Mutex
	var all []asked
	var polling sync.WaitGroup
	for range readers {
		polling.Go(func() {
			for {
				select {
				case <-done:
					return
				case <-time.After(3 * time.Millisecond):
				}
				one := asked{at: e.Now()}
				one.answer = e.get(path, headers...)
				mu.Lock()
				all = append(all, one)
				mu.Unlock()
			}
		})
	}
	polling.Wait()
	return all
}

// during polls a URL while do runs.
func (e *edge) during(path string, do func(), headers ...string) []asked {
	done, all := make(chan struct{}), make(chan []asked)
	go func() { all <- e.poll(path, done, headers...) }()
	do()
	close(done)
	return <-all
}

// tally counts, of the requests from an instant on, those that were answered with the medium,
// and of all requests those that the cache answered.
func tally(t *testing.T, all []asked, from mayfly.Instant) (later, served, hits int) {
	t.Helper()
	for _, a := range all {
		if a.err != nil {
			t.Fatal(a.err)
		}
		if a.hit() && a.status == http.StatusOK {
			hits++
		}
		if a.at >= from {
			later++
			if a.status == http.StatusOK {
				served++
			}
		}
	}
	return later, served, hits
}

func (e *edge) sleepUntil(at mayfly.Instant) { time.Sleep(at.Sub(e.Now())) }

// warm asks for a URL until the cache answers.
func (e *edge) warm(t *testing.T, path string, headers ...string) {
	t.Helper()
	for range 20 {
		if a := e.get(path, headers...); a.err != nil || a.status != http.StatusOK {
			t.Fatalf("%d, %v", a.status, a.err)
		} else if a.hit() {
			return
		}
	}
	t.Fatal("it is not cached")
}

func TestBehindVarnish(t *testing.T) {
	for _, p := range []purging{on, off, failing} {
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			e := startEdge(t, p)
			t.Run("no answer at or after the deadline", func(t *testing.T) {
				t.Parallel()
				s, path := e.publish(t, "8s", 0)
				e.deadline(t, s.ExpiresAt, 0, path)
			})
			t.Run("no answer at or after the deadline, by a slow way", func(t *testing.T) {
				t.Parallel()
				// Sent with seven seconds to keep, it arrives when it has five and a half left.
				s, path := e.publish(t, "9s", 3500*time.Millisecond)
				e.deadline(t, s.ExpiresAt, 3500*time.Millisecond, path)
			})
			t.Run("no answer with a paste at or after its deadline", func(t *testing.T) {
				t.Parallel()
				p := e.paste(t, `{"content":"words","lifetime":"8s"}`, 0)
				e.deadline(t, *p.ExpiresAt, 0, "/raw/"+p.Short)
			})
			t.Run("no answer with the page of a paste at or after its deadline, by a slow way", func(t *testing.T) {
				t.Parallel()
				p := e.paste(t, `{"content":"words","lifetime":"9s"}`, 3500*time.Millisecond)
				e.deadline(t, *p.ExpiresAt, 3500*time.Millisecond, "/"+p.Short, "Accept", "text/html")
			})
			gone, stale := 2*time.Second, false
			if p != on {
				gone, stale = most, true
			}
			t.Run("after a delete", func(t *testing.T) {
				t.Parallel()
				e.early(t, gone, stale, func(s wire.Story) {
					e.Want(nodetest.Request{As: "ana", Method: http.MethodDelete, Path: "/v1/stories/" + s.ID.String()}, http.StatusNoContent)
				})
			})
			t.Run("after a hold", func(t *testing.T) {
				t.Parallel()
				e.early(t, gone, stale, func(s wire.Story) {
					e.Want(nodetest.Request{As: "moderator", Method: http.MethodPut, Path: "/v1/holds/" + s.ID.String(), Body: `{"reason":"a complaint"}`, Admin: true}, http.StatusNoContent)
				})
			})
			t.Run("after a delete of a paste", func(t *testing.T) {
				t.Parallel()
				e.pasteEnds(t, stale, func(p wire.Paste) {
					e.Want(nodetest.Request{As: "anonymous", Method: http.MethodDelete, Path: "/" + p.Short, Header: map[string]string{"Mayfly-Delete-Token": p.DeleteToken}}, http.StatusNoContent)
				})
			})
			t.Run("after a hold of a paste", func(t *testing.T) {
				t.Parallel()
				e.pasteEnds(t, stale, func(p wire.Paste) {
					e.Want(nodetest.Request{As: "moderator", Method: http.MethodPut, Path: "/v1/holds/" + p.ID.String(), Body: `{"reason":"a complaint"}`, Admin: true}, http.StatusNoContent)
				})
			})
			if p == on {
				t.Run("an answer that arrives after the purge", func(t *testing.T) {
					t.Parallel()
					e.arrivesLate(t)
				})
			}
		})
	}
}

// deadline polls a URL beyond the deadline of its item.
func (e *edge) deadline(t *testing.T, end mayfly.Instant, delay time.Duration, path string, headers ...string) {
	all := e.during(path, func() { e.sleepUntil(end.Add(delay + 2*time.Second)) }, headers...)
	later, late, hits := tally(t, all, end)
	storetest.Proof(t, "behind varnish, "+t.Name()[len("TestBehindVarnish/"):], "requests, by the cache, from the deadline on, LATE", []int{len(all), hits, later, late})
	if late != 0 {
		t.Errorf("LATE: %d of %d requests at or after the deadline got the content", late, later)
	}
	if hits == 0 || later == 0 {
		t.Errorf("%d answers of the cache, %d requests from the deadline on", hits, later)
	}
}

// early polls a medium whose story ends early: it is gone after a while, and cached
// until then unless it is purged.
func (e *edge) early(t *testing.T, gone time.Duration, stale bool, end func(wire.Story)) {
	s, path := e.publish(t, "24h", 0)
	e.warm(t, path)
	var ended mayfly.Instant
	all := e.during(path, func() {
		end(s)
		ended = e.Now()
		e.sleepUntil(ended.Add(gone + 2*time.Second))
	})
	later, served, _ := tally(t, all, ended.Add(gone))
	if later == 0 || served != 0 {
		t.Errorf("%d of %d requests got the medium more than %s after its end", served, later, gone)
	}
	if _, served, _ := tally(t, all, ended); stale && served == 0 {
		t.Error("without a purge it was gone at once: it was not cached")
	}
}

// arrivesLate deletes a story while its medium is on its way to varnish.
func (e *edge) arrivesLate(t *testing.T) {
	s, path := e.publish(t, "24h", 1500*time.Millisecond)
	var ended mayfly.Instant
	all := e.during(path, func() {
		time.Sleep(300 * time.Millisecond) // the first request is answered by the node, and not by varnish yet
		e.Want(nodetest.Request{As: "ana", Method: http.MethodDelete, Path: "/v1/stories/" + s.ID.String()}, http.StatusNoContent)
		ended = e.Now()
		e.sleepUntil(ended.Add(8 * time.Second))
	})
	later, served, hits := tally(t, all, ended.Add(6*time.Second))
	t.Logf("%d answers of the cache, %d requests at the end", hits, later)
	if later == 0 || served != 0 {
		t.Errorf("%d of %d requests got the medium six seconds after its delete", served, later)
	}
}

// A block purges everything of the user, for whom it is fetched anew, and every purge
// is verified in the end; with no varnish they stay listed.
func TestPurgesAreVerifiedByVarnish(t *testing.T) {
	purges := func(e *edge) []wire.Purge {
		return nodetest.ReadJSON[wire.Purges](t, e.Want(nodetest.Request{As: "admin", Method: http.MethodGet, Path: "/v1/purges", Admin: true}, 200)).Purges
	}
	block := func(e *edge) (path string) {
		_, path = e.publish(t, "24h", 0)
		e.warm(t, path)
		e.Want(nodetest.Request{As: "ana", Method: http.MethodPut, Path: "/v1/me/blocks/~ben"}, http.StatusNoContent)
		if all := purges(e); len(all) != 1 || all[0].Cause != "user.blocked" {
			t.Errorf("unverified: %+v", all)
		}
		return path
	}
	e := startEdge(t, on)
	path := block(e)
	for until := time.Now().Add(5 * time.Second); e.get(path).hit(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("it is still cached five seconds after the block")
		}
	}
	for until := time.Now().Add(30 * time.Second); len(purges(e)) > 0; time.Sleep(100 * time.Millisecond) {
		e.get(path) // it is visible, and cached again, which does not hold up the purge
		if time.Now().After(until) {
			t.Fatalf("not verified: %+v", purges(e))
		}
	}
	block(startEdge(t, failing))
}
