package kvapi_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/fixture/nodetest"
)

// server is a node in which ana has the namespace cache.
type server struct {
	*nodetest.Server
	key string
}

func serve(t *testing.T, o nodetest.Options) *server {
	t.Helper()
	s := &server{Server: nodetest.Serve(t, o)}
	made := s.Want(nodetest.Request{As: "ana", Method: "POST", Path: "/v1/me/kv", Body: `{"name":"cache"}`}, http.StatusCreated)
	s.key = nodetest.ReadJSON[wire.KVNamespace](t, made).Credentials[0].Key
	return s
}

// ask sends a request with the key of the namespace.
func (s *server) ask(method, path, body string, header ...string) *httptest.ResponseRecorder {
	s.Helper()
	q := nodetest.Request{As: "anonymous", Method: method, Path: "/v1/kv/cache" + path, Body: body, Header: map[string]string{"Authorization": "Bearer " + s.key}}
	for i := 0; i < len(header); i += 2 {
		q.Header[header[i]] = header[i+1]
	}
	return s.Do(q)
}

func (s *server) want(status int, method, path, body string, header ...string) *httptest.ResponseRecorder {
	s.Helper()
	w := s.ask(method, path, body, header...)
	if w.Code != status {
		s.Fatalf("%s %s: %d, want %d: %s", method, path, w.Code, status, w.Body)
	}
	return w
}

// K2: every route serves an entry to the last millisecond before its expiry, and none of
// them from then on.
func TestAnEntryIsServedToItsMillisecondAndNotOneLongerByEveryRoute(t *testing.T) {
	s := serve(t, nodetest.Options{})
	put := s.want(204, "PUT", "/keys/k", "value", "Mayfly-TTL", "1500ms")
	tag := put.Header().Get("ETag")
	batch := `{"ops":[{"op":"get","key":"k"}]}`
	s.Machine.Advance(1499 * time.Millisecond)
	if w := s.want(200, "GET", "/keys/k", ""); w.Body.String() != "value" || w.Header().Get("Mayfly-TTL") != "1ms" || w.Header().Get("Mayfly-Expires-At") != put.Header().Get("Mayfly-Expires-At") {
		t.Errorf("a millisecond before: %s, %v", w.Body, w.Header())
	}
	s.want(200, "HEAD", "/keys/k", "")
	s.want(304, "GET", "/keys/k", "", "If-None-Match", tag)
	for _, w := range []*httptest.ResponseRecorder{s.want(200, "POST", "/batch", batch), s.want(200, "GET", "/scan", "")} {
		if !strings.Contains(w.Body.String(), `"version":`+tag) {
			t.Errorf("EARLY: %s", w.Body)
		}
	}
	s.Machine.Advance(time.Millisecond)
	for _, method := range []string{"GET", "HEAD"} {
		s.want(404, method, "/keys/k", "")
		s.want(404, method, "/keys/k", "", "If-None-Match", tag)
	}
	for _, w := range []*httptest.ResponseRecorder{s.want(200, "POST", "/batch", batch), s.want(200, "GET", "/scan", "")} {
		if strings.Contains(w.Body.String(), "version") {
			t.Errorf("LATE: %s", w.Body)
		}
	}
	s.want(404, "PATCH", "/keys/k", "", "Mayfly-TTL", "1h")
	s.want(412, "PUT", "/keys/k", "x", "If-Match", tag)
	s.want(412, "DELETE", "/keys/k", "", "If-Match", tag)
	s.want(204, "PUT", "/keys/k", "new", "If-None-Match", "*")
}

// slowKV takes time to read.
type slowKV struct {
	store.KV
	slow func()
}

func (k *slowKV) Get(ctx context.Context, s store.KVSpace, now mayfly.Instant, keys ...string) ([]store.KVEntry, error) {
	found, err := k.KV.Get(ctx, s, now, keys...)
	if k.slow != nil {
		k.slow()
	}
	return found, err
}

func TestAnEntryThatExpiresWhileItIsReadIsNotSent(t *testing.T) {
	slow := &slowKV{}
	s := serve(t, nodetest.Options{Wrap: func(set *store.Set) { slow.KV, set.KV = set.KV, slow }})
	tag := s.want(204, "PUT", "/keys/k", "value", "Mayfly-TTL", "1s").Header().Get("ETag")
	slow.slow = func() { s.Machine.Advance(time.Second); slow.slow = nil }
	w := s.want(404, "GET", "/keys/k", "")
	again := slow.slow == nil
	s.want(204, "PUT", "/keys/k", "value", "Mayfly-TTL", "1s")
	slow.slow = func() { s.Machine.Advance(time.Second); slow.slow = nil }
	unchanged := s.want(404, "GET", "/keys/k", "", "If-None-Match", "*")
	if !again || slow.slow != nil {
		t.Error("the store was not asked")
	}
	for _, w := range []*httptest.ResponseRecorder{w, unchanged} {
		if h := w.Header(); h.Get("ETag") != "" || h.Get("Mayfly-TTL") != "" || h.Get("Mayfly-Expires-At") != "" || strings.Contains(w.Body.String(), "value") {
			t.Errorf("the refusal tells of the entry %s: %v %s", tag, h, w.Body)
		}
	}
}

// L7: a node whose clock is in doubt reads by the stepped time and writes nothing.
func TestWhileTheClockIsInDoubtEntriesAreReadAndNothingIsWritten(t *testing.T) {
	s := serve(t, nodetest.Options{})
	s.want(204, "PUT", "/keys/brief", "v", "Mayfly-TTL", "1m")
	s.want(204, "PUT", "/keys/long", "v", "Mayfly-TTL", "30d")
	s.Machine.Step(24 * time.Hour)
	s.want(404, "GET", "/keys/brief", "")
	s.want(200, "GET", "/keys/long", "")
	s.want(200, "GET", "/scan", "")
	for _, q := range [][3]string{
		{"PUT", "/keys/k", "v"}, {"DELETE", "/keys/long", ""}, {"PATCH", "/keys/long", `{"increment":1}`}, {"POST", "/batch", `{"ops":[{"op":"delete","key":"long"}]}`},
	} {
		if w := s.want(503, q[0], q[1], q[2]); w.Header().Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After", q[0])
		}
	}
	s.Want(nodetest.Request{As: "ana", Method: "POST", Path: "/v1/me/kv", Body: `{"name":"more"}`}, 503)
	s.Want(nodetest.Request{As: "ana", Method: "POST", Path: "/v1/me/kv/cache/credentials"}, 503)
	s.Machine.Step(-24 * time.Hour)
	s.want(200, "GET", "/keys/brief", "") // nothing has expired
}

// A namespace that does not exist, one of another owner and a wrong key get the same
// answer, byte by byte but for the id of the request.
func TestRefusalsOfANamespaceAreAlike(t *testing.T) {
	s := serve(t, nodetest.Options{})
	s.want(204, "PUT", "/keys/k", "value")
	first := ""
	for _, q := range []nodetest.Request{
		{As: "ben", Path: "/v1/kv/cache/keys/k"},
		{As: "ben", Path: "/v1/kv/nothing/keys/k"},
		{As: "service", Path: "/v1/kv/cache/keys/k"},
		{As: "anonymous", Path: "/v1/kv/cache/keys/k", Header: map[string]string{"Authorization": "Bearer mfkv_WRONG"}},
		{As: "anonymous", Path: "/v1/kv/nothing/keys/k", Header: map[string]string{"Authorization": "Bearer " + s.key}},
	} {
		q.Method = "GET"
		w := s.Want(q, http.StatusForbidden)
		w.Header().Del("Mayfly-Request")
		answer := fmt.Sprint(w.Header(), w.Body)
		if first == "" {
			first = answer
		}
		if answer != first {
			t.Errorf("%s %s:\n%s\nand before\n%s", q.As, q.Path, answer, first)
		}
	}
}

func TestTryingKeysOfANamespaceIsLimited(t *testing.T) {
	s := serve(t, nodetest.Options{Config: func(c *config.Config) { c.Rates.AddressReads = config.Rate{Count: 3, Per: time.Hour} }})
	for range 3 {
		s.want(403, "GET", "/keys/k", "", "Authorization", "Bearer mfkv_WRONG")
	}
	s.want(429, "GET", "/keys/k", "", "Authorization", "Bearer mfkv_WRONG")
	s.want(404, "GET", "/keys/k", "") // a good key is not counted there
}

func TestANamespaceOverItsRateLearnsWhenToTryAgain(t *testing.T) {
	s := serve(t, nodetest.Options{Config: func(c *config.Config) { c.KV.Rate = config.Rate{Count: 10, Per: 100 * time.Second} }})
	s.want(200, "POST", "/batch", `{"ops":[`+strings.Repeat(`{"op":"get","key":"k"},`, 8)+`{"op":"get","key":"k"}]}`) // nine
	s.want(404, "GET", "/keys/k", "")
	if after := s.want(429, "PUT", "/keys/k", "v").Header().Get("Retry-After"); after != "10" {
		t.Errorf("Retry-After is %q", after)
	}
	s.Machine.Advance(10 * time.Second)
	s.want(404, "GET", "/keys/k", "")
}

func TestAScanListsEveryEntryOnceAndGoesOnOnlyWithItsOwnCursor(t *testing.T) {
	s := serve(t, nodetest.Options{})
	s.Want(nodetest.Request{As: "ana", Method: "POST", Path: "/v1/me/kv", Body: `{"name":"other"}`}, http.StatusCreated)
	for i := range 7 {
		s.want(204, "PUT", fmt.Sprintf("/keys/a%d", i), "v")
	}
	s.want(204, "PUT", "/keys/b", "v")
	seen, next, pages := map[string]int{}, "", 0
	for ; pages == 0 || next != ""; pages++ {
		page := nodetest.ReadJSON[wire.KVKeys](t, s.want(200, "GET", "/scan?prefix=a&limit=2&cursor="+next, ""))
		for _, k := range page.Keys {
			seen[*k.Key]++
		}
		if page.Next == "" {
			break
		}
		next = page.Next
		s.want(400, "GET", "/scan?cursor="+next, "")              // another prefix
		s.want(400, "GET", "/scan?prefix=a&cursor="+next+"A", "") // changed
		s.Want(nodetest.Request{As: "ana", Method: "GET", Path: "/v1/kv/other/scan?prefix=a&cursor=" + next}, 400)
		b, err := base64.RawURLEncoding.DecodeString(next)
		if err != nil {
			t.Fatal(err)
		}
		b[len(b)-1]++
		s.want(400, "GET", "/scan?prefix=a&cursor="+base64.RawURLEncoding.EncodeToString(b), "")
	}
	if len(seen) != 7 || pages < 3 {
		t.Errorf("%v on %d pages", seen, pages)
	}
	for key, times := range seen {
		if times != 1 || key[0] != 'a' {
			t.Errorf("%s came %d times", key, times)
		}
	}
}

// endless sends bytes until it is stopped, and notes how many were read.
type endless struct{ sent int }

func (e *endless) Read(p []byte) (int, error) {
	e.sent += len(p)
	return len(p), nil
}

func TestAValueIsCountedWhileItIsRead(t *testing.T) {
	s := serve(t, nodetest.Options{})
	made := s.Want(nodetest.Request{As: "ana", Method: "POST", Path: "/v1/me/kv", Body: `{"name":"small","max_value":1000}`}, http.StatusCreated)
	key := nodetest.ReadJSON[wire.KVNamespace](t, made).Credentials[0].Key
	body := &endless{}
	r := httptest.NewRequest("PUT", "/v1/kv/small/keys/k", io.LimitReader(body, 1<<30)) // without a length
	r.Header.Set("Authorization", "Bearer "+key)
	r.ProtoMajor = 2 // so that the kernel need not read the rest
	w := httptest.NewRecorder()
	s.Public.ServeHTTP(w, r)
	if w.Code != http.StatusRequestEntityTooLarge || body.sent > 64<<10 {
		t.Errorf("%d after %d bytes: %s", w.Code, body.sent, w.Body)
	}
	s.Want(nodetest.Request{As: "ana", Method: "GET", Path: "/v1/kv/small/keys/k"}, 404)
}

func TestTheTimeToLiveBeginsWhenTheValueIsThere(t *testing.T) {
	s := serve(t, nodetest.Options{})
	in, out := io.Pipe()
	r := httptest.NewRequest("PUT", "/v1/kv/cache/keys/k", in)
	r.Header.Set("Authorization", "Bearer "+s.key)
	r.Header.Set("Mayfly-TTL", "1s")
	w, done := httptest.NewRecorder(), make(chan struct{})
	go func() { defer close(done); s.Public.ServeHTTP(w, r) }()
	_, _ = out.Write([]byte("slow "))
	s.Machine.Advance(10 * time.Second)
	_, _ = out.Write([]byte("value"))
	_ = out.Close()
	<-done
	if w.Code != 204 || w.Header().Get("Mayfly-TTL") != "1s" {
		t.Fatalf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	s.Machine.Advance(999 * time.Millisecond)
	s.want(200, "GET", "/keys/k", "")
}

func TestABatchIsDoneAsOneOrNotAtAll(t *testing.T) {
	s := serve(t, nodetest.Options{})
	set := func(key, value, more string) string {
		return `{"op":"set","key":"` + key + `","value":"` + value + `"` + more + `}`
	}
	version := strings.Trim(s.want(204, "PUT", "/keys/watched", "v").Header().Get("ETag"), `"`)
	group := func(watch string) string {
		return `{"ops":[` + set("a", "1", "") + `,` + set("b", "2", "") + `],"watch":[{"key":"watched","version":"` + watch + `"}]}`
	}
	s.want(200, "POST", "/batch", group(version))
	s.want(204, "PUT", "/keys/watched", "w")
	s.want(204, "DELETE", "/keys/a", "")
	s.want(412, "POST", "/batch", group(version))
	s.want(404, "GET", "/keys/a", "")
	// One operation that cannot be stored stores none.
	s.want(400, "POST", "/batch", `{"ops":[`+set("a", "1", "")+`,`+set("c", "3", `,"ttl":"-1s"`)+`]}`)
	s.want(404, "GET", "/keys/a", "")
}

// On a cluster a batch of keys of several slots, whether it reads or writes, is refused
// with what to do, and nothing of it is done; a wrong type of content is another refusal.
func TestABatchOfSeveralSlotsOfAClusterIsRefusedWithAHint(t *testing.T) {
	s := serve(t, nodetest.Options{
		Wrap: func(set *store.Set) { set.KV = storetest.KVClusterModel{KVModel: storetest.NewKVModel()} },
		Node: func(o *node.Options) { o.Products.Alone = false },
	})
	refused := func(body, hint string) {
		t.Helper()
		w := s.want(422, "POST", "/batch", body)
		if p := nodetest.ReadJSON[wire.Problem](t, w); p.Code != mayfly.Unsupported.String() || !strings.Contains(p.Hint, hint) {
			t.Errorf("%s: %+v", body, p)
		}
	}
	set := func(key string) string { return `{"op":"set","key":"` + key + `","value":"1"}` }
	get := func(key string) string { return `{"op":"get","key":"` + key + `"}` }
	refused(`{"ops":[`+set("a")+`,`+set("b")+`]}`, "{user1}name")
	refused(`{"ops":[`+set("a")+`],"watch":[{"key":"b"}]}`, "{user1}name")
	s.want(404, "GET", "/keys/a", "")
	s.want(200, "POST", "/batch", `{"ops":[`+set("{u}a")+`,`+set("{u}b")+`]}`)
	s.want(200, "POST", "/batch", `{"ops":[`+get("{u}a")+`,`+get("{u}b")+`,`+get("{u}c")+`]}`)
	refused(`{"ops":[`+get("{u}a")+`,`+get("b")+`]}`, "{user1}name")
	s.want(415, "POST", "/batch", `{"ops":[`+get("a")+`]}`, "Content-Type", "text/plain")
	w := s.Want(nodetest.Request{As: "ana", Method: "POST", Path: "/v1/me/kv", Body: `{"name":"heard","events":true}`}, 422)
	if !strings.Contains(w.Body.String(), "leave events out") {
		t.Errorf("%s", w.Body)
	}
	s.Want(nodetest.Request{As: "ana", Method: "POST", Path: "/v1/me/kv", Body: `{"name":"plain","last_write_wins":true}`}, 201)
	w = s.Want(nodetest.Request{As: "ana", Method: "PUT", Path: "/v1/kv/plain/keys/k", Type: "text/plain", Body: "v", Header: map[string]string{"If-None-Match": "*"}}, 422)
	if !strings.Contains(w.Body.String(), "compare-and-set") {
		t.Errorf("%s", w.Body)
	}
}
