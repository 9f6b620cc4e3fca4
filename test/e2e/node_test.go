package e2e

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/httpapi"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/app/profile"
	"github.com/mayflyhq/mayfly/engine/clock"
	"github.com/mayflyhq/mayfly/product/account"
)

// testNode is a node with its HTTP handlers on the embedded store on memory, in a
// bubble: time passes when the test sleeps, and at no other moment.
type testNode struct {
	*testing.T
	store  *profile.Store
	node   *node.Node
	public http.Handler
	admin  http.Handler
	routes []httpapi.Route // of both listeners
	documents
}

// walksLook is how often walks look, instead of once a second: a bubble pays for
// every look, and soft expiry, which is what the handlers show, waits for none.
const walksLook = 2 * time.Minute

// nodeConfig returns a configuration with the product's own windows.
func nodeConfig() config.Config {
	cfg := config.Default()
	cfg.Data = "data"
	cfg.Disk.Share, cfg.Disk.Floor = 0, 0
	cfg.Disk.ReclaimEvery = 6 * time.Hour
	cfg.Memory.Cache, cfg.Memory.Memtable = 8*config.MiB, 4*config.MiB
	cfg.Memory.MediaCache, cfg.Memory.MediaMemtable = 2*config.MiB, 2*config.MiB
	cfg.Media.Inline = 256 * config.KiB
	cfg.Stories.Live = liveLimit
	cfg.Rates = config.Rates{}
	return cfg
}

// liveLimit is how many live stories an author of a golden story may have.
const liveLimit = 5

// openNode starts a node with the products of the module and some more; the caller
// closes it, within the bubble.
func openNode(t *testing.T, cfg config.Config, more ...node.Product) *testNode {
	t.Helper()
	h := &testNode{T: t}
	key, err := account.LoadKey(t.TempDir() + "/key")
	if err != nil {
		t.Fatal(err)
	}
	products := append(node.Products(), more...)
	disk := vfs.NewMem()
	if err := disk.MkdirAll(cfg.Data, 0o755); err != nil {
		t.Fatal(err)
	}
	if h.store, err = profile.EmbeddedOn(disk, cfg.Data, cfg, node.Tables(products...)); err != nil {
		t.Fatal(err)
	}
	o := node.FromConfig(cfg)
	o.Source = bubbleClock()
	o.Products.Key = key
	o.Cadence, o.Walk.Lease, o.Clock.SavePeriod, o.AccountsEvery = walksLook, 3*walksLook, walksLook, walksLook
	o.Problem = func(loop string, err error) { t.Errorf("%s: %v", loop, err) }
	if h.node, err = node.Start(context.Background(), h.store.Set, o, products...); err != nil {
		t.Fatal(errors.Join(err, h.store.Close()))
	}
	handlers, err := h.node.API(node.ServeOptions{Listen: cfg.Listen, Version: "test"})
	if err != nil {
		t.Fatal(errors.Join(err, h.node.Stop(context.Background()), h.store.Close()))
	}
	h.public, h.admin, h.routes = handlers.Public(), handlers.Admin(), handlers.Routes()
	h.readDocuments()
	return h
}

// readDocuments reads the OpenAPI documents of both listeners: every later answer
// is checked against them.
func (h *testNode) readDocuments() {
	h.Helper()
	for _, admin := range []bool{false, true} {
		handler := h.public
		if admin {
			handler = h.admin
		}
		rec := httptest.NewRecorder()
		handler.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/openapi.json", nil))
		all, err := readDocument(rec.Body.Bytes(), admin)
		if err != nil {
			h.Fatalf("%d: %v", rec.Code, err)
		}
		h.documents = append(h.documents, all...)
	}
}

// bubbleClock is the clock of a machine that was booted when the bubble was.
func bubbleClock() clock.Source {
	boot := time.Now()
	return clock.Source{
		Read: func() clock.Moment {
			now := time.Now()
			return clock.Moment{Wall: now.UnixNano(), Boot: now.Sub(boot)}
		},
		BootID:       "boot",
		Synchronised: func() bool { return true },
	}
}

func (h *testNode) close() {
	h.Helper()
	if err := errors.Join(h.node.Stop(context.Background()), h.store.Close()); err != nil {
		h.Error(err)
	}
}

func (h *testNode) now() mayfly.Instant { return h.node.Clock().Read().Now }

// sleepUntil lets time pass up to an instant.
func (h *testNode) sleepUntil(at mayfly.Instant) {
	time.Sleep(time.Until(at.Time()))
}
