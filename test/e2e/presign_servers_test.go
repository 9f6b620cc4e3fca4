//go:build servers

package e2e

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/app/profile"
	"github.com/mayflyhq/mayfly/client"
	archivist "github.com/mayflyhq/mayfly/engine/archive"
	"github.com/mayflyhq/mayfly/engine/clock"
	"github.com/mayflyhq/mayfly/engine/sweep"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/conn"
	"github.com/mayflyhq/mayfly/store/s3store"
)

// bucketNode is a node whose media are on a real S3 server, with its handler on a
// socket, in real time.
type bucketNode struct {
	*testing.T
	set    store.Set
	node   *node.Node
	server *httptest.Server
	token  string // ana's
	s3     string // its host
}

// openBucketNode opens a node whose stories have this lifetime.
func openBucketNode(t *testing.T, lives time.Duration) *bucketNode {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	hot, cold := bucketTiers(t)
	cfg := nodeConfig()
	lifetime, err := mayfly.LifetimeOf(lives)
	must(err)
	cfg.Stories.Lifetimes = []mayfly.Lifetime{lifetime}
	cfg.Stories.MaxImage, cfg.Stories.MaxVideo = 2*config.MiB, 2*config.MiB
	disk := vfs.NewMem()
	must(disk.MkdirAll(cfg.Data, 0o755))
	kept, err := profile.EmbeddedOn(disk, cfg.Data, cfg, node.Tables())
	must(err)
	t.Cleanup(func() { must(kept.Close()) })
	h := &bucketNode{T: t, set: kept.Set}
	h.set.Hot, h.set.Cold = hot, cold
	o := node.FromConfig(cfg)
	o.Idle, o.Source, o.Products.Presign = true, clock.System(), true
	o.Products.Key, err = account.LoadKey(t.TempDir() + "/key")
	must(err)
	h.node, err = node.Start(context.Background(), h.set, o)
	must(err)
	t.Cleanup(func() { must(h.node.Stop(context.Background())) })
	api, err := h.node.API(node.ServeOptions{})
	must(err)
	h.server = httptest.NewServer(api.Public())
	t.Cleanup(h.server.Close)
	token, err := h.node.Accounts().Mint(userNamed("ana"), "ana", []account.Scope{account.User}, time.Hour, h.now())
	must(err)
	h.token = string(token)
	u, err := url.Parse(os.Getenv("MAYFLY_TEST_S3"))
	must(err)
	h.s3 = u.Host
	return h
}

// bucketTiers returns two tiers of this test alone, emptied at the end.
func bucketTiers(t *testing.T) (hot, cold store.Blobs) {
	t.Helper()
	const name = "MAYFLY_TEST_S3"
	if os.Getenv(name) == "" {
		t.Fatalf("%s is not set: docs/servers.md says how to start the server", name)
	}
	server, err := s3store.Connect(s3store.Options{
		Endpoint: os.Getenv(name), Region: os.Getenv(name + "_REGION"),
		Credentials: conn.Credentials{User: os.Getenv(name + "_KEY"), Password: mayfly.Secret(os.Getenv(name + "_SECRET"))},
	})
	if err != nil {
		t.Fatal(err)
	}
	fresh := "presign-" + rand.Text()
	var tiers []store.Blobs
	for _, o := range []s3store.TierOptions{{Prefix: fresh + "/hot", Longest: time.Minute}, {Prefix: fresh + "/cold"}} {
		o.Bucket = os.Getenv(name + "_BUCKET")
		tier, err := server.Tier(o)
		if err != nil {
			t.Fatal(err)
		}
		tiers = append(tiers, tier)
	}
	t.Cleanup(func() {
		for _, tier := range tiers {
			left, err := tier.List(context.Background(), "", "", 1000)
			if err != nil {
				t.Error(err)
			}
			for _, l := range left {
				if err := tier.Delete(context.Background(), l.Key); err != nil {
					t.Error(err)
				}
			}
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return tiers[0], tiers[1]
}

func (h *bucketNode) now() mayfly.Instant { return h.node.Clock().Read().Now }

// send sends one request, to the node with ana's token or to S3 with none.
func (h *bucketNode) send(method, target string, body []byte, header ...string) (int, []byte) {
	h.Helper()
	own := strings.HasPrefix(target, "/")
	if own {
		target = h.server.URL + target
	}
	req, err := http.NewRequestWithContext(h.Context(), method, target, bytes.NewReader(body))
	if err != nil {
		h.Fatal(err)
	}
	if own {
		req.Header.Set("Authorization", "Bearer "+h.token)
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	for again := 0; !own && again < 100 && (errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)); again++ {
		// S3 refuses by the headers and closes the connection; with a part of the body not yet
		// sent its answer may be lost.
		req.Body = io.NopCloser(bytes.NewReader(body))
		res, err = http.DefaultClient.Do(req)
	}
	if err != nil {
		h.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		h.Fatal(err)
	}
	return res.StatusCode, answer
}

func sendsJSON[T any](h *bucketNode, status int, method, target, body string) T {
	h.Helper()
	got, answer := h.send(method, target, []byte(body))
	var v T
	if err := json.Unmarshal(answer, &v); err != nil || got != status {
		h.Fatalf("%s %s: %d, not %d: %s", method, target, got, status, answer)
	}
	return v
}

func (h *bucketNode) reserve() wire.Upload {
	h.Helper()
	return sendsJSON[wire.Upload](h, http.StatusCreated, http.MethodPost, "/v1/uploads", fmt.Sprintf(`{"media":[{"length":%d}]}`, putLength))
}

func (h *bucketNode) publish(upload mayfly.ID) wire.Story {
	h.Helper()
	return sendsJSON[wire.Story](h, http.StatusCreated, http.MethodPost, "/v1/stories", publishOf(upload))
}

func publishOf(upload mayfly.ID) string {
	return `{"audience":"everyone","upload":"` + upload.String() + `"}`
}

// open opens a story a little after a whole second of its life: on the second a
// URL that took a millisecond to sign would last a millisecond too long, and is
// not handed out.
func (h *bucketNode) open(id mayfly.ID) wire.Medium {
	h.Helper()
	if into := h.now().Sub(id.Birth()) % time.Second; into < 100*time.Millisecond {
		time.Sleep(100*time.Millisecond - into)
	}
	return sendsJSON[wire.Story](h, http.StatusOK, http.MethodGet, "/v1/stories/"+id.String(), "").Media[0]
}

func (h *bucketNode) wantMedium(m wire.Medium) {
	h.Helper()
	if u, err := url.Parse(m.URL); err != nil || u.Host != h.s3 {
		h.Fatalf("%s is not on the S3 server", m.URL)
	}
	status, body := h.send(http.MethodGet, m.URL, nil)
	if sum := sha256.Sum256(body); status != http.StatusOK || hex.EncodeToString(sum[:]) != m.SHA256 {
		h.Errorf("the medium: %d, %d bytes, want %d", status, len(body), m.Size)
	}
}

// L11, ST1, ST3, ST6: reserve, a real PUT, publish, a real GET, and its end.
func TestOnS3AStoryIsPutAndReadByPresignedURLsThatEnd(t *testing.T) {
	h := openBucketNode(t, 6*time.Second)
	upload := h.reserve()
	put := upload.Put[0].Presigned
	if put == nil {
		t.Fatal("no presigned URL is offered")
	}
	if status, answer := h.send(http.MethodPut, put.URL, toPut(picture("presigned", 0))); status != http.StatusOK {
		t.Fatalf("put: %d %s", status, answer)
	}
	for what, got := range map[string]int{
		"read by the URL that writes": first(h.send(http.MethodGet, put.URL, nil)),
		"written to where it will be": first(h.send(http.MethodPut, strings.Replace(put.URL, "raw-0", "0-0", 1), nil)),
	} {
		if got != http.StatusForbidden {
			t.Errorf("%s: %d", what, got)
		}
	}
	s := h.publish(upload.ID)
	if _, err := h.set.Hot.Stat(t.Context(), mayfly.RawKey(upload.ID, 0)); !errors.Is(err, mayfly.NotFound) {
		t.Errorf("what was put is left: %v", err)
	}
	m := h.open(s.ID)
	h.wantMedium(m)
	if m.URLUntil > s.ExpiresAt {
		t.Errorf("good until %s, past the deadline %s", m.URLUntil, s.ExpiresAt)
	}
	if status, _ := h.send(http.MethodPut, m.URL, []byte("other bytes")); status != http.StatusForbidden {
		t.Errorf("written by the URL that reads: %d", status)
	}
	h.send(http.MethodPut, put.URL, toPut(picture("presigned", 1))) // once more, too late: an orphan
	h.wantMedium(m)
	time.Sleep(s.ExpiresAt.Sub(h.now()))
	if status, _ := h.send(http.MethodGet, m.URL, nil); status != http.StatusForbidden {
		t.Errorf("past the deadline: %d", status)
	}
	h.toCold(s.ID)
	m = h.open(s.ID)
	h.wantMedium(m)
	if !strings.Contains(m.URL, "/cold/") {
		t.Errorf("the archive is read at %s", m.URL)
	}
}

func first(status int, _ []byte) int { return status }

// toCold does what the walks do to a story that has ended.
func (h *bucketNode) toCold(id mayfly.ID) {
	h.Helper()
	s, err := sweep.New(h.set, sweep.Options{})
	if err != nil {
		h.Fatal(err)
	}
	a, err := archivist.New(h.set, archivist.Options{Window: time.Nanosecond})
	if err != nil {
		h.Fatal(err)
	}
	for _, act := range []walk.Act{s.Act, a.Act} {
		found, err := h.set.Ledger.Get(h.Context(), id)
		if err != nil {
			h.Fatal(err)
		}
		if failed, err := act(h.Context(), walk.Batch{Items: []mayfly.Item{found[0].Item}, Now: h.now(), Run: 1}); err != nil || len(failed) > 0 {
			h.Fatal(failed, err)
		}
		if err := h.set.Signals.Publish(h.Context(), store.Signal{Topic: store.RowChanged, ID: id}); err != nil {
			h.Fatal(err)
		}
	}
}

func TestOnS3AnUploadIsJudgedByItsBytesAndNotByItsHeaders(t *testing.T) {
	h := openBucketNode(t, time.Hour)
	upload := h.reserve()
	put := upload.Put[0].Presigned.URL
	refused := func(want int, body []byte, header ...string) {
		t.Helper()
		if status, answer := h.send(http.MethodPut, put, toPut(body), header...); status != http.StatusOK {
			t.Fatalf("put: %d %s", status, answer)
		}
		if status, answer := h.send(http.MethodPost, "/v1/stories", []byte(publishOf(upload.ID))); status != want {
			t.Errorf("%d, not %d: %s", status, want, answer)
		}
	}
	refused(http.StatusUnsupportedMediaType, []byte("<script>"), "Content-Type", "image/png")
	for _, other := range []int{putLength + 1, 2 << 20, putLength - 1} {
		if status, answer := h.send(http.MethodPut, put, append(picture("long", 0), make([]byte, other-len(picture("long", 0)))...)); status != http.StatusForbidden {
			t.Errorf("%d bytes instead of %d: %d %s", other, putLength, status, answer)
		}
	}
	refused(http.StatusBadRequest, picture("cut", 0)[:60])
	// A hash of its own, if the server lets it through, is no hash of ours.
	if status, _ := h.send(http.MethodPut, put, toPut(picture("lie", 0)), "X-Amz-Meta-Mayfly-Sha256", strings.Repeat("00", 31)+"01"); status == http.StatusOK {
		if status, answer := h.send(http.MethodPost, "/v1/stories", []byte(publishOf(upload.ID))); status != http.StatusBadRequest {
			t.Errorf("%d: %s", status, answer)
		}
	}
	if status, answer := h.send(http.MethodPut, put, toPut(picture("good", 0)), "Content-Type", "text/html"); status != http.StatusOK {
		t.Fatalf("put: %d %s", status, answer)
	}
	h.wantMedium(h.open(h.publish(upload.ID).ID))
}

// hosts notes where requests go, and with what.
type hosts struct {
	mu   sync.Mutex
	sent []*http.Request
}

func (h *hosts) RoundTrip(r *http.Request) (*http.Response, error) {
	h.mu.Lock()
	h.sent = append(h.sent, r)
	h.mu.Unlock()
	return http.DefaultTransport.RoundTrip(r)
}

func TestOnS3TheClientPutsAndReadsByPresignedURLs(t *testing.T) {
	h := openBucketNode(t, time.Hour)
	seen := &hosts{}
	c, err := client.New(h.server.URL, client.Options{Token: h.token, HTTP: &http.Client{Transport: seen}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.PublishUpload(t.Context(), client.Publication{
		Story: wire.NewStory{Audience: "everyone"}, Media: []client.Source{client.Bytes("a", picture("client", 0)), client.Bytes("b", picture("client", 1))},
	})
	if err != nil {
		t.Fatal(err)
	}
	h.open(s.ID)
	if s, err = c.Story(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	for _, m := range s.Media {
		if err := c.Download(t.Context(), m, io.Discard, nil); err != nil {
			t.Error(err)
		}
	}
	count := map[string]int{}
	for _, r := range seen.sent {
		if r.URL.Host == h.s3 {
			count[r.Method]++
			if r.Header.Get("Authorization") != "" {
				t.Errorf("%s: the token went to S3", r.Method)
			}
		}
	}
	if count[http.MethodPut] != 2 || count[http.MethodGet] != 2 {
		t.Errorf("S3 was asked %v", count)
	}
}
