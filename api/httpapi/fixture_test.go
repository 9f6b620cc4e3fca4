package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"image"
	"image/color"
	"image/jpeg"
	"io"
	"log/slog"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/httpapi"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/engine/clock"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/diskstore"
	"github.com/mayflyhq/mayfly/store/memstore"
	"github.com/mayflyhq/mayfly/store/pebblestore"
	"github.com/mayflyhq/mayfly/test/tables"
)

const morning mayfly.Instant = 1_790_000_000_000

// testNode is a node on a memory file system with a manual clock. Every answer of
// its handlers is validated against the OpenAPI document.
type testNode struct {
	t       testing.TB
	api     *httpapi.API
	set     store.Set
	node    *node.Node
	machine *clock.Manual
	public  http.Handler
	admin   http.Handler
	logs    *bytes.Buffer
	tokens  map[string]string
}

// setting changes the configuration of a test node.
type setting func(*config.Config)

func newTestNode(t testing.TB, set ...setting) *testNode {
	t.Helper()
	return newTestNodeOn(t, clock.NewManual(morning), func(*store.Set) {}, set...)
}

// newTestNodeOn starts a node by the given clock, on a store that wrap may change.
func newTestNodeOn(t testing.TB, machine *clock.Manual, wrap func(*store.Set), set ...setting) *testNode {
	t.Helper()
	c := config.Default()
	c.Data = t.TempDir()
	c.Rates = config.Rates{}
	c.Listen.BodyWithin = 2 * time.Second
	for _, s := range set {
		s(&c)
	}
	parts, closed := open(t)
	wrap(&parts)
	key, err := account.LoadKey(filepath.Join(c.Data, "key"))
	if err != nil {
		t.Fatal(err)
	}
	o := node.FromConfig(c)
	o.Idle, o.Source, o.Products.Key = true, machine.Source(), key
	n, err := node.Start(context.Background(), parts, o)
	if err != nil {
		t.Fatal(err)
	}
	logs := &bytes.Buffer{}
	api, err := n.API(node.ServeOptions{Listen: c.Listen, Logger: slog.New(slog.NewJSONHandler(logs, &slog.HandlerOptions{Level: slog.LevelDebug})), Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		closed()
	})
	h := &testNode{t: t, api: api, set: parts, node: n, machine: machine, public: api.Public(), admin: api.Admin(), logs: logs, tokens: map[string]string{}}
	h.public, h.admin = validated(t, api.Public()), validated(t, api.Admin())
	return h
}

func open(t testing.TB) (set store.Set, closed func()) {
	t.Helper()
	fs, fuse := vfs.NewMem(), store.NewFuse()
	db, err := pebblestore.Open(pebblestore.Options{Tables: tables.All(), FS: fs, Dir: "db", Fuse: fuse, MemtableBytes: 1 << 20, CacheBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	var tiers []*diskstore.Store
	for _, dir := range []string{"hot", "cold", "erased"} {
		tier, err := diskstore.Open(diskstore.Options{FS: fs, Dir: dir, Fuse: fuse, MemtableBytes: 1 << 20, CacheBytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		tiers = append(tiers, tier)
	}
	set = store.Set{
		Writer: db.Writer(), Ledger: db.Ledger(), Rows: db.Rows(), Log: db.Log(), Hot: tiers[0], Cold: tiers[1], Deletions: tiers[2],
		Signals: memstore.NewSignals(), Limits: memstore.NewLimits(0), Fuse: fuse,
	}
	return set, func() {
		for _, tier := range tiers {
			err = errors.Join(err, tier.Close())
		}
		if err := errors.Join(err, db.Close()); err != nil {
			t.Error(err)
		}
	}
}

func user(name string) mayfly.UserID { return mayfly.HomeUserOf("mayfly", name) }

// token returns the token of a role: anonymous has none, and service:ana is the
// service acting for ana.
func (h *testNode) token(role string) string {
	h.t.Helper()
	if role, _, _ = strings.Cut(role, ":"); role == "anonymous" {
		return ""
	}
	if h.tokens[role] == "" {
		scopes, who := []account.Scope{account.User}, user(role)
		switch role {
		case "service", "moderator", "admin":
			scopes, who = []account.Scope{account.Scope(role)}, mayfly.UserID{}
		}
		token, err := h.node.Accounts().Mint(who, role, scopes, 300*24*time.Hour, h.node.Clock().Read().Now)
		if err != nil {
			h.t.Fatal(err)
		}
		h.tokens[role] = string(token)
	}
	return h.tokens[role]
}

// request is an HTTP request to a test node.
type request struct {
	as           string
	method, path string
	typ, body    string
	header       map[string]string
	admin        bool
}

// do sends a request and returns the answer.
func (h *testNode) do(q request) *httptest.ResponseRecorder {
	h.t.Helper()
	var body io.Reader = http.NoBody
	if q.body != "" {
		body = strings.NewReader(q.body)
	}
	r := httptest.NewRequest(q.method, q.path, body)
	if q.typ == "" && strings.HasPrefix(q.body, "{") {
		q.typ = "application/json"
	}
	if q.typ != "" {
		r.Header.Set("Content-Type", q.typ)
	}
	if token := h.token(q.as); token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if _, acts, ok := strings.Cut(q.as, ":"); ok {
		r.Header.Set("Mayfly-User", "~"+acts)
	}
	for name, value := range q.header {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	if q.admin {
		h.admin.ServeHTTP(w, r)
	} else {
		h.public.ServeHTTP(w, r)
	}
	return w
}

// get sends a GET request, which must be answered with status.
func (h *testNode) get(as, path string, status int) *httptest.ResponseRecorder {
	h.t.Helper()
	return h.must(request{as: as, method: "GET", path: path}, status)
}

// must sends a request, which must be answered with status.
func (h *testNode) must(q request, status int) *httptest.ResponseRecorder {
	h.t.Helper()
	w := h.do(q)
	if w.Code != status {
		h.t.Fatalf("%s %s as %s: %d, want %d: %s", q.method, q.path, q.as, w.Code, status, w.Body)
	}
	return w
}

// read parses the JSON of an answer.
func read[T any](t testing.TB, w *httptest.ResponseRecorder) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	return v
}

// picture returns a small JPEG; each n gives other bytes.
func picture(t testing.TB, n int) string {
	t.Helper()
	img := image.NewRGBA(image.Rect(0, 0, 64, 48))
	for y := range 48 {
		for x := range 64 {
			img.Set(x, y, color.RGBA{uint8(x + n), uint8(y), uint8(n), 255})
		}
	}
	var b bytes.Buffer
	if err := jpeg.Encode(&b, img, nil); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// formOf returns a multipart body of alternating names and contents, and its
// Content-Type.
func formOf(t testing.TB, parts ...string) (body, typ string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for i := 0; i < len(parts); i += 2 {
		h := textproto.MIMEHeader{"Content-Disposition": {`form-data; name="` + parts[i] + `"; filename="f"`}}
		part, err := w.CreatePart(h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(part, parts[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String(), w.FormDataContentType()
}

// publish publishes a story with one picture as the given user.
func (h *testNode) publish(as, fields string) wire.Story {
	h.t.Helper()
	body, typ := formOf(h.t, "story", fields, "media", picture(h.t, len(fields)))
	return read[wire.Story](h.t, h.must(request{as: as, method: "POST", path: "/v1/stories", typ: typ, body: body}, http.StatusCreated))
}

func (h *testNode) follow(owner, follower string) {
	h.t.Helper()
	h.must(request{as: "service", method: "PUT", path: "/v1/users/~" + owner + "/followers/~" + follower}, http.StatusNoContent)
}

// never returns a valid id that no item has.
func never(t testing.TB, birth mayfly.Instant, lasts time.Duration) mayfly.ID {
	t.Helper()
	l, err := mayfly.LifetimeOf(lasts)
	if err != nil {
		t.Fatal(err)
	}
	id, err := mayfly.NewID(birth, l, user("ana").Trace(), 0x123456789)
	if err != nil {
		t.Fatal(err)
	}
	return id
}
