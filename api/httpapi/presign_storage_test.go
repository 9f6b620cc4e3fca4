package httpapi_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/accountapi"
	"github.com/mayflyhq/mayfly/api/httpapi"
	"github.com/mayflyhq/mayfly/api/storyapi"
	"github.com/mayflyhq/mayfly/engine/archive"
	"github.com/mayflyhq/mayfly/engine/clock"
	"github.com/mayflyhq/mayfly/engine/sweep"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// storage is a tier with an HTTP server of its own. A presigned URL allows one
// method on one key until it expires.
type storage struct {
	store.Blobs
	server *httptest.Server
	now    func() mayfly.Instant

	mu     sync.Mutex
	grants map[string]grant
}

type grant struct {
	method string
	key    mayfly.BlobKey
	until  mayfly.Instant
}

func newStorage(t testing.TB, tier store.Blobs, now func() mayfly.Instant) *storage {
	t.Helper()
	s := &storage{Blobs: tier, now: now, grants: map[string]grant{}}
	s.server = httptest.NewServer(s)
	t.Cleanup(s.server.Close)
	return s
}

// Presign returns a URL whose validity is in whole seconds, as with S3.
func (s *storage) Presign(_ context.Context, what store.Access, key mayfly.BlobKey, lasts time.Duration) (string, error) {
	if lasts < time.Second || lasts%time.Second != 0 {
		return "", mayfly.Errorf(mayfly.Invalid, "a URL cannot be valid for %s", lasts)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	name := fmt.Sprint(len(s.grants))
	method := map[store.Access]string{store.Read: http.MethodGet, store.Write: http.MethodPut}[what]
	s.grants[name] = grant{method, key, (s.now() / 1000 * 1000).Add(lasts)}
	return s.server.URL + "/" + string(key) + "?grant=" + name, nil
}

func (s *storage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	g, ok := s.grants[r.URL.Query().Get("grant")]
	s.mu.Unlock()
	if !ok || g.method != r.Method || "/"+string(g.key) != r.URL.Path || s.now() > g.until {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	if r.Method == http.MethodPut {
		if _, err := s.Put(r.Context(), g.key, r.Body); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		return
	}
	object, _, err := s.Open(r.Context(), g.key, store.Span{})
	if err != nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	_, _ = io.Copy(w, object)
	_ = object.Close()
}

// presignedNode is a test node whose storage returns presigned URLs.
type presignedNode struct {
	*testNode
	hot, cold *storage
}

func newPresignedNode(t testing.TB, on bool) *presignedNode {
	t.Helper()
	p := &presignedNode{}
	machine := clock.NewManual(morning)
	read := machine.Source().Read
	now := func() mayfly.Instant { return mayfly.Instant(read().Wall / int64(time.Millisecond)) }
	p.testNode = newTestNodeOn(t, machine, func(set *store.Set) {
		p.hot, p.cold = newStorage(t, set.Hot, now), newStorage(t, set.Cold, now)
		set.Hot, set.Cold = p.hot, p.cold
	})
	n := p.node
	stories, err := storyapi.Routes(storyapi.Options{Stories: n.Stories(), Key: n.Key(), Presign: on})
	if err != nil {
		t.Fatal(err)
	}
	api, err := httpapi.New(httpapi.Options{Accounts: n.Accounts(), Clock: n.Clock(), Routes: append(stories, accountapi.Routes(n.Accounts())...)})
	if err != nil {
		t.Fatal(err)
	}
	p.public = validated(t, api.Public())
	return p
}

func (p *presignedNode) now() mayfly.Instant { return p.node.Clock().Read().Now }

func (p *presignedNode) advanceTo(at mayfly.Instant) { p.machine.Advance(at.Sub(p.now())) }

// send sends a request to a storage, or to the node if the URL is relative.
func (p *presignedNode) send(method, url, body string) (status int, answer string) {
	p.t.Helper()
	if strings.HasPrefix(url, "/") {
		w := p.do(request{as: "anonymous", method: method, path: url, body: body})
		return w.Code, w.Body.String()
	}
	req, err := http.NewRequestWithContext(p.t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return res.StatusCode, string(all)
}

// toCold sweeps and archives a story that has ended, as the walks do.
func (p *presignedNode) toCold(id mayfly.ID) {
	p.t.Helper()
	ctx := p.t.Context()
	s, err := sweep.New(p.set, sweep.Options{})
	if err != nil {
		p.t.Fatal(err)
	}
	a, err := archive.New(p.set, archive.Options{})
	if err != nil {
		p.t.Fatal(err)
	}
	for _, act := range []walk.Act{s.Act, a.Act} {
		found, err := p.set.Ledger.Get(ctx, id)
		if err != nil {
			p.t.Fatal(err)
		}
		if failed, err := act(ctx, walk.Batch{Items: []mayfly.Item{found[0].Item}, Now: p.now(), Run: 1}); err != nil || len(failed) > 0 {
			p.t.Fatal(failed, err)
		}
		if err := p.set.Signals.Publish(ctx, store.Signal{Topic: store.RowChanged, ID: id}); err != nil {
			p.t.Fatal(err)
		}
	}
}
