package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/httpapi"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/app/profile"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/test/fixture"
	"github.com/mayflyhq/mayfly/test/fixture/nodetest"
)

// scripts are the golden stories; MAYFLY_STORY=name plays those only whose name
// it is in.
func scripts(t *testing.T) []script {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 12 {
		t.Fatalf("%d golden stories, %v", len(files), err)
	}
	var all []script
	for _, file := range files {
		s, err := readScript(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(s.name, os.Getenv("MAYFLY_STORY")) {
			all = append(all, s)
		}
	}
	if len(all) == 0 {
		t.Fatalf("no golden story is called %s", os.Getenv("MAYFLY_STORY"))
	}
	return all
}

// Every golden story, through the handlers of one node in a bubble: to the
// millisecond, and every answer as the served document says. The stories are
// played side by side, each by people of its own: virtual time stands still
// while any of them is at work.
func TestGoldenStoriesComeTrueToTheMillisecond(t *testing.T) {
	playInBubble(t, scripts(t))
}

// Pastes end by what their ids say, and keys by what stands in them: the golden stories
// about them come true on a node that never sweeps, too.
func TestGoldenPastesAndKeysComeTrueWithoutASweep(t *testing.T) {
	var some []script
	for _, kind := range []string{"paste-", "keys-"} {
		of := slices.DeleteFunc(scripts(t), func(s script) bool { return !strings.HasPrefix(s.name, kind) })
		if len(of) == 0 && os.Getenv("MAYFLY_STORY") == "" {
			t.Fatalf("no golden story is called %s…", kind)
		}
		some = append(some, of...)
	}
	if len(some) > 0 {
		playInBubble(t, some, node.API)
	}
}

// playInBubble plays scripts side by side on one node in a bubble, which has all roles
// or those.
func playInBubble(t *testing.T, all []script, roles ...node.Role) {
	t.Helper()
	counts := make([]tally, len(all))
	synctest.Test(t, func(t *testing.T) {
		day := mayfly.InstantOf(time.Now().UTC().Truncate(24 * time.Hour))
		time.Sleep(earliest(all) - time.Minute)
		b := openBubble(t, day, roles...)
		defer b.close()
		var playing sync.WaitGroup
		for i, s := range all {
			playing.Go(func() { counts[i] = newPlayer(t, b, s).play() })
		}
		playing.Wait()
	})
	var sum tally
	for _, c := range counts {
		sum.add(c)
	}
	t.Logf("%d golden stories in a bubble: %s", len(all), sum)
	if sum.missed > 0 || sum.answers != sum.lines && !t.Failed() {
		t.Errorf("a bubble misses nothing: %s", sum)
	}
}

// earliest is at what time of day the first of the stories begins.
func earliest(all []script) time.Duration {
	first := all[0].lines[0].at.after
	for _, s := range all {
		first = min(first, s.lines[0].at.after)
	}
	return first
}

// bubble is the stage of virtual time.
type bubble struct {
	*testNode
	day   mayfly.Instant
	redis *fixture.PipeListener
	stop  func() // ends what serves redis
}

// openBubble starts a node that serves HTTP handlers and the Redis protocol; the caller
// closes it.
func openBubble(t *testing.T, day mayfly.Instant, roles ...node.Role) *bubble {
	t.Helper()
	cfg := nodeConfig()
	cfg.Listen.KV = "127.0.0.1:6380" // so that there is a listener; nothing listens there
	b := &bubble{testNode: openNodeAs(t, roles, cfg), day: day, redis: fixture.NewPipeListener()}
	all := b.node.Listeners()
	if len(all) != 1 {
		t.Fatalf("%d listeners of products, want that of keys", len(all))
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- all[0].Serve(ctx, b.redis) }()
	b.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	return b
}

func (b *bubble) close() {
	b.Helper()
	b.stop()
	b.testNode.close()
}

// ask hands a request to the handler, or sends a command.
func (b *bubble) ask(r request) (answer, error) {
	if r.command == "" {
		return b.testNode.ask(r)
	}
	a := answer{began: b.now()}
	client, err := b.redis.Dial(b.Context())
	if err != nil {
		return a, err
	}
	a.body, err = r.converse(client)
	a.ended = b.now()
	return a, err
}

// listens is a millisecond, in which the key is still there, and the second in which its
// event must come.
func (b *bubble) listens() time.Duration { return time.Second + time.Millisecond }

func (b *bubble) midnight() mayfly.Instant           { return b.day }
func (b *bubble) span(d time.Duration) time.Duration { return d }
func (b *bubble) lifetime(word string) string        { return word }

func (b *bubble) urls(archived bool) time.Duration {
	if archived {
		return time.Hour
	}
	return time.Minute
}

func (b *bubble) since(birth mayfly.Instant, after time.Duration) mayfly.Instant {
	return birth.Add(after)
}

func (b *bubble) wait(planned mayfly.Instant) mayfly.Instant {
	if now := b.now(); now > planned {
		b.Errorf("it is %s, and a line is planned for %s: the lines are out of order, or something let time pass", now, planned)
	}
	b.sleepUntil(planned)
	return b.now()
}

func (b *bubble) bearer(user, scope string) (string, error) { return b.testNode.bearer(user, scope) }

// bearer is a token, fresh at every request: virtual days are longer than tokens last.
func (h *testNode) bearer(user, scope string) (string, error) {
	id, scopes := mayfly.UserID{}, []account.Scope{account.Scope(scope)}
	if user != "" {
		id = mayfly.HomeUserOf(issuer, user)
		if scope != "user" {
			scopes = append(scopes, account.User)
		}
	} else {
		user = scope
	}
	token, err := h.node.Accounts().Mint(id, user, scopes, 0, h.now())
	return string(token), err
}

// ask hands a request to the handler, and holds the answer against the document.
func (h *testNode) ask(r request) (answer, error) {
	ctx := h.Context()
	if r.listen > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.listen)
		defer cancel()
	}
	req := httptest.NewRequestWithContext(ctx, r.method, r.target, bytes.NewReader(r.body))
	for name, values := range r.header {
		req.Header[name] = values
	}
	handler := h.public
	if r.admin {
		handler = h.admin
	}
	rec := httptest.NewRecorder()
	a := answer{began: h.now()}
	handler.ServeHTTP(streamed{rec}, req)
	a.status, a.header, a.body, a.ended = rec.Code, rec.Result().Header, rec.Body.Bytes(), h.now()
	if err := h.documented(r, a); err != nil {
		return a, fmt.Errorf("%s %s: the answer is not as the document says: %w", r.method, r.target, err)
	}
	if a.status >= http.StatusInternalServerError {
		return a, fmt.Errorf("%s %s: %d %s", r.method, r.target, a.status, excerpt(a.body))
	}
	return a, nil
}

// streamed is a recorder of answers to which events can be written: it has deadlines,
// which nothing exceeds.
type streamed struct{ *httptest.ResponseRecorder }

func (streamed) SetWriteDeadline(time.Time) error { return nil }

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
	cfg.Disk.ReclaimEvery = 10 * time.Minute
	cfg.Memory.Cache, cfg.Memory.Memtable = 8*config.MiB, 4*config.MiB
	cfg.Memory.MediaCache, cfg.Memory.MediaMemtable = 2*config.MiB, 2*config.MiB
	cfg.Media.Inline = 256 * config.KiB
	cfg.Stories.Live = liveLimit
	cfg.Rates = config.Rates{}
	cfg.Pastes.Anonymous, cfg.Pastes.Rate, cfg.Pastes.HourlyBytes = true, config.Rate{}, 0
	return cfg
}

// liveLimit is how many live stories an author of a golden story may have.
const liveLimit = 5

// openNode starts a node with the products of the module and some more; the caller
// closes it, within the bubble.
func openNode(t *testing.T, cfg config.Config, more ...node.Product) *testNode {
	t.Helper()
	return openNodeAs(t, nil, cfg, more...)
}

// openNodeAs starts a node that has only these roles.
func openNodeAs(t *testing.T, roles []node.Role, cfg config.Config, more ...node.Product) *testNode {
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
	o.Source = nodetest.BubbleClock()
	o.Products.Key, o.Roles = key, roles
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

// slowly is a reader of answers that takes the first bytes before an instant and
// all others after it.
type slowly struct {
	*httptest.ResponseRecorder
	until  time.Time
	writes int
}

func (s *slowly) Write(p []byte) (int, error) {
	if s.writes++; s.writes == 2 {
		time.Sleep(time.Until(s.until))
	}
	return s.ResponseRecorder.Write(p)
}

// noise is a picture of about a megabyte, which no encoding makes smaller.
func noise() []byte {
	img := image.NewNRGBA(image.Rect(0, 0, 600, 450))
	r := rand.New(rand.NewPCG(1, 2))
	for i := range img.Pix {
		img.Pix[i] = byte(r.Uint32()) | byte(i%4/3)*255
	}
	var out bytes.Buffer
	if err := png.Encode(&out, img); err != nil {
		panic(err) // into memory
	}
	return out.Bytes()
}

// ST13: no cut in the middle; the next load is refused.
func TestADownloadThatBeganBeforeTheDeadlineFinishes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMatrix(t, "everyone")
		defer m.close()
		photo := noise()
		body, typ, err := multipartStory(wire.NewStory{Audience: "everyone", Lifetime: "6h"}, [][]byte{photo})
		if err != nil {
			t.Fatal(err)
		}
		header := m.as("ana", "user")
		header.Set("Content-Type", typ)
		var story wire.Story
		a := m.must(request{method: http.MethodPost, target: "/v1/stories", header: header, body: body}, http.StatusCreated)
		if err := json.Unmarshal(a.body, &story); err != nil {
			t.Fatal(err)
		}
		target := "/v1/stories/" + story.ID.String()
		m.sleepUntil(story.ExpiresAt - 1)
		a = m.must(request{method: http.MethodGet, target: target}, http.StatusOK)
		if err := json.Unmarshal(a.body, &story); err != nil {
			t.Fatal(err)
		}
		loads := []request{ // by its URL, and by a token
			{method: http.MethodGet, target: story.Media[0].URL},
			{method: http.MethodGet, target: "/v1/media/" + story.ID.String() + "/0", header: m.as("ben", "user")},
		}
		readers := make([]*slowly, len(loads))
		for i, r := range loads {
			begun := httptest.NewRequest(r.method, r.target, nil)
			begun.Header = r.header
			readers[i] = &slowly{ResponseRecorder: httptest.NewRecorder(), until: story.ExpiresAt.Time().Add(5 * time.Second)}
			go m.public.ServeHTTP(readers[i], begun)
		}
		synctest.Wait() // they have taken the first bytes
		for i, w := range readers {
			if w.writes != 2 || w.Body.Len() == 0 || w.Body.Len() == len(photo) || m.now() != story.ExpiresAt-1 {
				t.Fatalf("%s: %d bytes in %d writes at %s", loads[i].target, w.Body.Len(), w.writes, m.now())
			}
		}
		m.sleepUntil(story.ExpiresAt.Add(10 * time.Second))
		synctest.Wait()
		for i, w := range readers {
			if w.Code != http.StatusOK || !bytes.Equal(w.Body.Bytes(), photo) {
				t.Errorf("%s: %d, %d bytes of %d", loads[i].target, w.Code, w.Body.Len(), len(photo))
			}
			m.must(loads[i], http.StatusGone)
		}
	})
}
