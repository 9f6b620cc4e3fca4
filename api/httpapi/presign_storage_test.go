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
	"github.com/mayflyhq/mayfly/engine/sweep"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/fixture/nodetest"
)

// storage is a tier with an HTTP server of its own. A presigned URL allows one
// method on one key, with one length, until it expires.
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
	length int64 // of a PUT
	until  mayfly.Instant
}

func newStorage(t testing.TB, tier store.Blobs, now func() mayfly.Instant) *storage {
	t.Helper()
	s := &storage{Blobs: tier, now: now, grants: map[string]grant{}}
	s.server = httptest.NewServer(s)
	t.Cleanup(s.server.Close)
	return s
}

func (s *storage) PresignGet(_ context.Context, key mayfly.BlobKey, lasts time.Duration) (string, error) {
	return s.sign(grant{method: http.MethodGet, key: key}, lasts)
}

func (s *storage) PresignPut(_ context.Context, key mayfly.BlobKey, length int64, lasts time.Duration) (string, error) {
	return s.sign(grant{method: http.MethodPut, key: key, length: length}, lasts)
}

// sign returns a URL whose validity is in whole seconds, as with S3.
func (s *storage) sign(g grant, lasts time.Duration) (string, error) {
	if lasts < time.Second || lasts%time.Second != 0 {
		return "", mayfly.Errorf(mayfly.Invalid, "a URL cannot be valid for %s", lasts)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	name := fmt.Sprint(len(s.grants))
	g.until = (s.now() / 1000 * 1000).Add(lasts)
	s.grants[name] = g
	return s.server.URL + "/" + string(g.key) + "?grant=" + name, nil
}

func (s *storage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	g, ok := s.grants[r.URL.Query().Get("grant")]
	s.mu.Unlock()
	if !ok || g.method != r.Method || "/"+string(g.key) != r.URL.Path || s.now() > g.until || r.Method == http.MethodPut && r.ContentLength != g.length {
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
	*nodetest.Server
	hot, cold *storage
}

func newPresignedNode(t testing.TB, on bool) *presignedNode {
	t.Helper()
	p := &presignedNode{}
	now := func() mayfly.Instant { return p.Now() }
	p.Server = nodetest.Serve(t, nodetest.Options{Wrap: func(set *store.Set) {
		p.hot, p.cold = newStorage(t, set.Hot, now), newStorage(t, set.Cold, now)
		set.Hot, set.Cold = p.hot, p.cold
	}})
	p.Machine.Advance(655 * time.Millisecond) // to a whole second: presigned URLs end at one
	n := p.Node
	stories, err := storyapi.Routes(storyapi.Options{Stories: n.Stories(), Key: n.Key(), Presign: on})
	if err != nil {
		t.Fatal(err)
	}
	api, err := httpapi.New(httpapi.Options{Accounts: n.Accounts(), Clock: n.Clock(), Routes: append(stories, accountapi.Routes(n.Accounts())...)})
	if err != nil {
		t.Fatal(err)
	}
	p.Public = nodetest.Validated(t, api.Public())
	return p
}

func (p *presignedNode) advanceTo(at mayfly.Instant) { p.Machine.Advance(at.Sub(p.Now())) }

// send sends a request to a storage, or to the node if the URL is relative.
func (p *presignedNode) send(method, url, body string) (status int, answer string) {
	p.Helper()
	if strings.HasPrefix(url, "/") {
		w := p.Do(nodetest.Request{As: "anonymous", Method: method, Path: url, Body: body})
		return w.Code, w.Body.String()
	}
	req, err := http.NewRequestWithContext(p.Context(), method, url, strings.NewReader(body))
	if err != nil {
		p.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		p.Fatal(err)
	}
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	if err != nil {
		p.Fatal(err)
	}
	return res.StatusCode, string(all)
}

// toCold sweeps and archives a story that has ended, as the walks do.
func (p *presignedNode) toCold(id mayfly.ID) {
	p.Helper()
	ctx := p.Context()
	s, err := sweep.New(p.Set, sweep.Options{})
	if err != nil {
		p.Fatal(err)
	}
	a, err := archive.New(p.Set, archive.Options{})
	if err != nil {
		p.Fatal(err)
	}
	for _, act := range []walk.Act{s.Act, a.Act} {
		found, err := p.Set.Ledger.Get(ctx, id)
		if err != nil {
			p.Fatal(err)
		}
		if failed, err := act(ctx, walk.Batch{Items: []mayfly.Item{found[0].Item}, Now: p.Now(), Run: 1}); err != nil || len(failed) > 0 {
			p.Fatal(failed, err)
		}
		if err := p.Set.Signals.Publish(ctx, store.Signal{Topic: store.RowChanged, ID: id}); err != nil {
			p.Fatal(err)
		}
	}
}
