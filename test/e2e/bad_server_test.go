package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/netutil"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/app/profile"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/store"
)

// badServer is a node on a folder of its own that listens on loopback as `mayfly
// serve` does, for clients that mean no good.
type badServer struct {
	*testing.T
	config     config.Config
	store      *profile.Store
	node       *node.Node
	api, admin string // addresses
	documents
	open  *badOpen
	good  wire.Story // of ana's, for everyone, in full view all the time
	other wire.Story // of ana's, for her followers: ben is none
}

// badAudience are the people of bad input: what is stored is counted over them.
func badAudience() []string { return []string{"ana", "ben"} }

// badConfig is the product's own configuration, impatient.
func badConfig(t *testing.T) config.Config {
	t.Helper()
	cfg := config.Default()
	cfg.Data = filepath.Join(t.TempDir(), "data")
	cfg.Disk.Floor = 0
	cfg.Rates = config.Rates{}
	cfg.Stories.Live = 100_000
	cfg.Media.MaxOpen, cfg.Media.MaxUnpublished = 1_000, 1<<40
	cfg.Listen.HeaderWithin, cfg.Listen.BodyWithin = 2*time.Second, 2*time.Second
	cfg.Listen.Origins = []string{"https://app.example.org"}
	return cfg
}

// badHeaders is the longest header that `mayfly serve` takes.
const badHeaders = 64 << 10

func openBadServer(t *testing.T, cfg config.Config) *badServer {
	t.Helper()
	h := &badServer{T: t, config: cfg, open: &badOpen{changed: make(chan struct{}, 1)}}
	var err error
	if h.store, err = profile.Embedded(cfg, node.Tables()); err != nil {
		t.Fatal(err)
	}
	o := node.FromConfig(cfg)
	o.Reclaim = h.store.Reclaim
	o.Problem = func(loop string, err error) {
		if loop != "renditions" { // what cannot be decoded has none
			t.Errorf("%s: %v", loop, err)
		}
	}
	if o.Products.Key, err = node.LoadKey(cfg); err != nil {
		t.Fatal(errors.Join(err, h.store.Close()))
	}
	if h.node, err = node.Start(context.Background(), h.store.Set, o); err != nil {
		t.Fatal(errors.Join(err, h.store.Close()))
	}
	t.Cleanup(func() {
		if err := errors.Join(h.node.Stop(context.Background()), h.store.Close()); err != nil {
			t.Error(err)
		}
	})
	handlers, err := h.node.API(node.ServeOptions{Listen: cfg.Listen, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	h.api, h.admin = h.listen(handlers.Public()), h.listen(handlers.Admin())
	for _, admin := range []bool{false, true} {
		a := h.send(badAsk{method: http.MethodGet, target: "/openapi.json", admin: admin})
		all, err := readDocument(a.body, admin)
		if err != nil {
			t.Fatal(err)
		}
		h.documents = append(h.documents, all...)
	}
	h.good, h.other = h.publishes("ana", "everyone"), h.publishes("ana", "followers")
	return h
}

// listen answers on loopback within the bounds that `mayfly serve` has.
func (h *badServer) listen(handler http.Handler) string {
	h.Helper()
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		h.Fatal(err)
	}
	l := h.config.Listen
	server := &http.Server{Handler: handler, ReadHeaderTimeout: l.HeaderWithin, IdleTimeout: l.IdleWithin, MaxHeaderBytes: badHeaders, ConnState: h.open.note}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(netutil.LimitListener(at, l.Connections)) }()
	h.Cleanup(func() {
		err := server.Close()
		if ended := <-ended; !errors.Is(ended, http.ErrServerClosed) {
			err = errors.Join(err, ended)
		}
		if err != nil {
			h.Error(err)
		}
	})
	return at.Addr().String()
}

// badOpen counts the open connections of a server.
type badOpen struct {
	n       atomic.Int64
	changed chan struct{}
}

func (o *badOpen) note(_ net.Conn, now http.ConnState) {
	switch now {
	case http.StateNew:
		o.n.Add(1)
	case http.StateClosed, http.StateHijacked:
		o.n.Add(-1)
		select {
		case o.changed <- struct{}{}:
		default: // a look is pending already
		}
	}
}

// alone waits until the server has no open connection.
func (h *badServer) alone(within time.Duration) {
	h.Helper()
	for end := time.After(within); h.open.n.Load() > 0; {
		select {
		case <-h.open.changed:
		case <-end:
			h.Errorf("%d connections are still open after %s", h.open.n.Load(), within)
			return
		}
	}
}

// bearer is a token of a role, or of a user.
func (h *badServer) bearer(as string) string {
	h.Helper()
	scope, user := account.User, mayfly.HomeUserOf(issuer, as)
	switch as {
	case "service", "moderator", "admin":
		scope, user = account.Scope(as), mayfly.UserID{}
	}
	token, err := h.node.Accounts().Mint(user, as, []account.Scope{scope}, time.Hour, h.node.Clock().Read().Now)
	if err != nil {
		h.Fatal(err)
	}
	return string(token)
}

// publishes is a story of one picture, all of whose objects are there.
func (h *badServer) publishes(as, audience string) wire.Story {
	h.Helper()
	form := badForm{{"story", `{"audience":"` + audience + `"}`}, {"media", string(picture(h.Name()+audience, 0))}}
	a := h.send(badAsk{as: as, method: http.MethodPost, target: "/v1/stories", typ: form.typ(), body: form.text()})
	story := badRead[wire.Story](h.T, a, http.StatusCreated)
	for _, size := range story.Media[0].Renditions { // made now, so that none is made while objects are counted
		if a := h.send(badAsk{method: http.MethodGet, target: size.URL}); a.status != http.StatusOK {
			h.Fatalf("a smaller picture: %d %s", a.status, excerpt(a.body))
		}
	}
	return story
}

// answers checks that the server still works: it shows what it showed before,
// and takes a story.
func (h *badServer) answers() {
	h.Helper()
	// Its author asks: what ana may have been made to send can make her account private.
	a := h.send(badAsk{as: "ana", method: http.MethodGet, target: "/v1/stories/" + h.good.ID.String()})
	if got := badRead[wire.Story](h.T, a, http.StatusOK); got.ID != h.good.ID {
		h.Errorf("another story: %s", got.ID)
	}
	h.publishes("stranger", "everyone")
}

// badCount counts what a server has stored.
type badCount struct {
	items int // in the owner index
	hot   int // objects
}

func (h *badServer) stored() badCount {
	h.Helper()
	var c badCount
	for _, name := range badAudience() {
		user := mayfly.HomeUserOf(issuer, name)
		rows, err := h.store.Set.Rows.Range(h.Context(), engine.Owners, store.Range{Partition: string(user[:]), Limit: 100_000})
		if err != nil {
			h.Fatal(err)
		}
		c.items += len(rows)
	}
	objects, err := h.store.Set.Hot.List(h.Context(), "", "", 100_000)
	if err != nil {
		h.Fatal(err)
	}
	c.hot = len(objects)
	return c
}

// settles waits until what is stored is as before: a request that its client has
// left is cleaned up behind its back.
func (h *badServer) settles(before badCount) badCount {
	h.Helper()
	end := time.After(9 * time.Second) // before the server gives up births that have no client
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		now := h.stored()
		if now == before {
			return now
		}
		select {
		case <-end:
			h.Errorf("something was left behind: %+v, before %+v", now, before)
			return now // so that the next is not blamed for it
		case <-again.C:
		}
	}
}

// onDisk is how many bytes the files of hot storage have, those of broken
// uploads among them.
func (h *badServer) onDisk() int64 {
	h.Helper()
	var sum int64
	err := filepath.WalkDir(filepath.Join(h.config.Data, "hot", "files"), func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // taken away since
		}
		if err == nil {
			sum += info.Size()
		}
		return err
	})
	if err != nil {
		h.Fatal(err)
	}
	return sum
}

type badObject struct {
	key   string
	bytes []byte
}

// everything is every object of hot storage.
func (h *badServer) everything() func(yield func(badObject) bool) {
	return func(yield func(badObject) bool) {
		all, err := h.store.Set.Hot.List(h.Context(), "", "", 100_000)
		if err != nil || len(all) == 0 {
			h.Fatalf("%d objects: %v", len(all), err)
		}
		for _, listed := range all {
			r, _, err := h.store.Set.Hot.Open(h.Context(), listed.Key, store.Span{})
			if err != nil {
				h.Fatal(err)
			}
			b, err := io.ReadAll(r)
			if err != nil {
				h.Fatal(err)
			}
			if err := r.Close(); err != nil {
				h.Fatal(err)
			}
			if !yield(badObject{fmt.Sprintf("%x", listed.Key), b}) {
				return
			}
		}
	}
}

// grepFolder looks for the text of the place in every file of the data folder, the
// write-ahead logs among them, and says in how many.
func (h *badServer) grepFolder() (files int) {
	h.Helper()
	err := filepath.WalkDir(h.config.Data, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if bytes.Contains(text, []byte(badPlace[6:14])) {
			h.Errorf("%s holds a place", name)
		}
		files++
		return nil
	})
	if err != nil {
		h.Fatal(err)
	}
	return files
}
