package httpapi_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/test/fixture/nodetest"
)

func TestACallerOverItsRateGetsRetryAfter(t *testing.T) {
	h := newTestNode(t, func(c *config.Config) {
		c.Rates.Writes = config.Rate{Count: 2, Per: time.Hour}
		c.Rates.Reads = config.Rate{Count: 3, Per: time.Minute}
		c.Rates.AddressReads = config.Rate{Count: 2, Per: time.Minute}
		c.Listen.Proxies = []string{"192.0.2.0/24"}
	})
	s := h.Publish("ana", `{"audience":"everyone"}`)
	path := "/v1/stories/" + s.ID.String()
	h.Publish("ana", `{"audience":"everyone"}`)
	body, typ := nodetest.Form(t, "media", picture(t, 1))
	w := h.Want(nodetest.Request{As: "ana", Method: "POST", Path: "/v1/stories", Type: typ, Body: body}, 429)
	if got := w.Header().Get("Retry-After"); got != "1800" {
		t.Errorf("Retry-After %s, want 1800", got)
	}
	for range 3 {
		h.Get("ben", path, 200)
	}
	if got := h.Get("ben", path, 429).Header().Get("Retry-After"); got != "20" {
		t.Errorf("Retry-After %s, want 20", got)
	}
	h.Want(nodetest.Request{As: "service:ben", Method: "GET", Path: path}, 429) // the user's limits count (C1)
	behind := func(addresses string) int {
		return h.Do(nodetest.Request{As: "anonymous", Method: "GET", Path: path, Header: map[string]string{"X-Forwarded-For": addresses}}).Code
	}
	for i, row := range []struct {
		forwarded string
		want      int
	}{
		{"203.0.113.7", 200},
		{"10.9.9.9, 203.0.113.7", 200},  // the caller wrote the address on the left
		{"10.1.1.1, 203.0.113.7", 429},  // so it is ignored
		{"203.0.113.8, 192.0.2.9", 200}, // two trusted proxies in a row
		{"2001:db8::1", 200},
		{"2001:db8::2", 200}, // the same subscriber
		{"2001:db8::3", 429},
		{"nonsense", 200}, // counts as the proxy
	} {
		if got := behind(row.forwarded); got != row.want {
			t.Errorf("row %d: from %s: %d, want %d", i, row.forwarded, got, row.want)
		}
	}
	media := nodetest.ReadJSON[wire.Story](t, h.Get("ana", path, 200)).Media[0].URL
	for range 20 { // a signed URL was counted when it was returned
		h.Get("anonymous", media, 200)
	}
}

func TestAnAmbiguousPathIsRefused(t *testing.T) {
	h := newTestNode(t)
	for _, path := range []string{
		"//v1/stories/x", "/v1//stories/x", "/v1/stories/../me/archive", "/v1/stories/%2e%2e/x", "/v1/stories/a%2fb", "/v1/stories/a%5cb",
		"/v1/stories/a%00b", "/v1/stories/%0d%0ax", "/v1/stories/%252e", "/./", "/v1/stories/%ff",
	} {
		w := h.Do(nodetest.Request{As: "anonymous", Method: "GET", Path: path})
		if w.Code != 400 || !strings.Contains(w.Body.String(), `"hint"`) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	for _, path := range []string{"/v1", "/v1/", "/v1/stories/x/", "/v2/stories/x", "/v1/Stories/x", "/v1/me", "/docs", "/openapi.json/"} {
		h.Get("anonymous", path, 404)
	}
}

func TestAnUnsupportedMethodGetsAllow(t *testing.T) {
	h := newTestNode(t)
	for path, allow := range map[string]string{
		"/v1/stories": "POST", "/v1/stories/x": "DELETE, GET, HEAD", "/v1/media/x/0": "GET, HEAD", "/v1/me/blocks/x": "DELETE, PUT",
	} {
		w := h.Want(nodetest.Request{As: "anonymous", Method: "PATCH", Path: path}, 405)
		if got := w.Header().Get("Allow"); got != allow {
			t.Errorf("%s: Allow %s, want %s", path, got, allow)
		}
	}
}

func TestOnlyConfiguredOriginsMayCallFromABrowser(t *testing.T) {
	ask := func(h *testNode, origin, method string, admin bool) http.Header {
		q := nodetest.Request{As: "anonymous", Method: method, Path: "/v1/stories", Header: map[string]string{"Origin": origin}, Admin: admin}
		if method == "OPTIONS" {
			q.Header["Access-Control-Request-Method"] = "POST"
		}
		return h.Do(q).Header()
	}
	const good, bad = "https://app.example.org", "https://evil.example.org"
	some := newTestNode(t, func(c *config.Config) { c.Listen.Origins = []string{good} })
	for method, headers := range map[string]string{"OPTIONS": "Idempotency-Key", "GET": ""} {
		h := ask(some, good, method, false)
		if h.Get("Access-Control-Allow-Origin") != good || !strings.Contains(h.Get("Access-Control-Allow-Headers"), headers) || h.Get("Vary") != "Origin" || h.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%s of an allowed origin gets %v", method, h)
		}
	}
	if h := ask(some, bad, "OPTIONS", false); h.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("another origin gets %v", h)
	}
	if h := ask(some, good, "OPTIONS", true); h.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("the admin listener answers %v", h)
	}
	all := newTestNode(t, func(c *config.Config) { c.Listen.Origins = []string{"*"} })
	if h := ask(all, bad, "GET", false); h.Get("Access-Control-Allow-Origin") != "*" || h.Get("Access-Control-Allow-Credentials") != "" {
		t.Errorf("with * an origin gets %v", h)
	}
	if h := ask(newTestNode(t), good, "OPTIONS", false); h.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("without configuration an origin gets %v", h)
	}
}

// Where any origin may call, the answer is the same with an origin and without one: a
// cache keeps one of them for all (C9).
func TestAnAnswerForAnyOriginDependsOnNone(t *testing.T) {
	h := newTestNode(t, anonymousPastes, func(c *config.Config) { c.Listen.Origins = []string{"*"} })
	w := h.Want(nodetest.Request{As: "anonymous", Method: "POST", Path: "/", Type: "text/plain", Body: "words"}, http.StatusCreated)
	path := strings.TrimPrefix(strings.TrimSpace(w.Body.String()), "http://example.com")
	for _, prefix := range []string{"", "/raw"} {
		without := h.Get("anonymous", prefix+path, 200).Header()
		with := h.Want(nodetest.Request{As: "anonymous", Method: "GET", Path: prefix + path, Header: map[string]string{"Origin": "https://app.example.org"}}, 200).Header()
		for _, name := range []string{"Access-Control-Allow-Origin", "Access-Control-Expose-Headers", "Vary"} {
			if a, b := without.Values(name), with.Values(name); !slices.Equal(a, b) || len(a) == 0 && name != "Vary" {
				t.Errorf("%s%s: %s is %q, with an origin %q", prefix, path, name, a, b)
			}
		}
	}
	some := newTestNode(t, anonymousPastes, func(c *config.Config) { c.Listen.Origins = []string{"https://app.example.org"} })
	w = some.Want(nodetest.Request{As: "anonymous", Method: "POST", Path: "/", Type: "text/plain", Body: "words"}, http.StatusCreated)
	path = strings.TrimPrefix(strings.TrimSpace(w.Body.String()), "http://example.com")
	if vary := some.Get("anonymous", path, 200).Header().Values("Vary"); !slices.Contains(vary, "Origin") || !slices.Contains(vary, "Accept") {
		t.Errorf("Vary is %q", vary)
	}
}

// A page of another origin may send and read every header that a route declares.
func TestTheHeadersOfEveryRouteMayBeUsedFromABrowser(t *testing.T) {
	h := newTestNode(t, anonymousPastes, func(c *config.Config) { c.Listen.Origins = []string{"*"} })
	answer := h.Want(nodetest.Request{As: "anonymous", Method: "OPTIONS", Path: "/v1/stories", Header: map[string]string{"Origin": "https://app.example.org", "Access-Control-Request-Method": "POST"}}, 204).Header()
	list := func(name string) []string {
		return strings.Split(strings.ToLower(answer.Get(name)), ", ")
	}
	allowed, exposed, seen := list("Access-Control-Allow-Headers"), list("Access-Control-Expose-Headers"), 0
	for path, item := range nodetest.Document(t, h.Public).Paths.Map() {
		for method, op := range item.Operations() {
			for _, p := range op.Parameters {
				if p.Value.In == "header" {
					if seen++; !slices.Contains(allowed, strings.ToLower(p.Value.Name)) {
						t.Errorf("%s %s: %s is not allowed", method, path, p.Value.Name)
					}
				}
			}
			for _, r := range op.Responses.Map() {
				for name := range r.Value.Headers {
					if seen++; !slices.Contains(exposed, strings.ToLower(name)) && !slices.Contains([]string{"cache-control", "content-type", "content-length"}, strings.ToLower(name)) { // those are exposed always
						t.Errorf("%s %s: %s is not exposed", method, path, name)
					}
				}
			}
		}
	}
	for _, name := range []string{"mayfly-password", "mayfly-delete-token", "mayfly-burn", "mayfly-reads", "mayfly-lifetime", "mayfly-private", "mayfly-title", "mayfly-language", "mayfly-ttl", "authorization", "content-type"} {
		if !slices.Contains(allowed, name) {
			t.Errorf("%s is not allowed", name)
		}
	}
	for _, name := range []string{"mayfly-expires", "mayfly-delete-token", "content-disposition", "retry-after"} {
		if !slices.Contains(exposed, name) {
			t.Errorf("%s is not exposed", name)
		}
	}
	if seen < 100 {
		t.Errorf("%d headers looked at", seen)
	}
}

func TestARequestKeepsItsIDIfAllCharactersAreAllowed(t *testing.T) {
	h := newTestNode(t)
	for sent, kept := range map[string]bool{"abc-123": true, "": false, "a b": false, "a\"b": false, strings.Repeat("x", 65): false} {
		w := h.Do(nodetest.Request{As: "anonymous", Method: "GET", Path: "/", Header: map[string]string{"Mayfly-Request": sent}})
		if got := w.Header().Get("Mayfly-Request"); (got == sent) != kept || got == "" {
			t.Errorf("sent %q, got %q", sent, got)
		}
	}
}

func TestAStoryThatTheClientHasIsNotModified(t *testing.T) {
	h := newTestNode(t)
	s := h.Publish("ana", `{"audience":"everyone"}`)
	path := "/v1/stories/" + s.ID.String()
	tag := h.Get("ben", path, 200).Header().Get("Etag")
	same := nodetest.Request{As: "ben", Method: "GET", Path: path, Header: map[string]string{"If-None-Match": `"other", W/` + tag}}
	if w := h.Want(same, 304); w.Body.Len() != 0 || w.Header().Get("Etag") != tag {
		t.Errorf("304 with %q, %v", w.Body, w.Header())
	}
	h.Machine.Advance(time.Minute) // its URLs have expired
	h.Want(same, 200)
	h.Machine.Advance(24 * time.Hour)
	h.Want(same, 410)
}

func TestARangeOfAMediumReturnsThoseBytes(t *testing.T) {
	h := newTestNode(t)
	s := h.Publish("ana", `{"audience":"everyone"}`)
	url := "/v1/media/" + s.ID.String() + "/0"
	whole := h.Get("ben", url, 200).Body.Bytes()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	size := len(whole)
	for range 300 {
		first, last := random.IntN(size), random.IntN(size+50)
		text, want, status := fmt.Sprintf("bytes=%d-%d", first, last), whole, 200
		switch {
		case random.IntN(4) == 0:
			text, want, status = fmt.Sprintf("bytes=%d-", first), whole[first:], 206
		case random.IntN(4) == 0:
			text, want, status = fmt.Sprintf("bytes=-%d", last+1), whole[max(0, size-last-1):], 206
		case last >= first:
			want, status = whole[first:min(last+1, size)], 206
		}
		w := h.Want(nodetest.Request{As: "ben", Method: "GET", Path: url, Header: map[string]string{"Range": text}}, status)
		if !bytes.Equal(w.Body.Bytes(), want) || w.Header().Get("Content-Length") != fmt.Sprint(len(want)) {
			t.Fatalf("seed %d: %s of %d bytes: %d bytes", seed, text, size, w.Body.Len())
		}
	}
}

func TestAReusedRefreshTokenRevokesItsFamily(t *testing.T) {
	h := newTestNode(t)
	refresh := func(token string, status int) wire.Tokens {
		w := h.Want(nodetest.Request{As: "anonymous", Method: "POST", Path: "/v1/token", Body: `{"refresh_token":"` + token + `"}`}, status)
		if status != 200 {
			return wire.Tokens{}
		}
		return nodetest.ReadJSON[wire.Tokens](t, w)
	}
	first := nodetest.ReadJSON[wire.Tokens](t, h.Want(nodetest.Request{As: "service", Method: "POST", Path: "/v1/token", Body: `{"user":"~ana"}`}, 200))
	second := refresh(first.RefreshToken, 200)
	if second.User != nodetest.User("ana") || second.RefreshToken == first.RefreshToken {
		t.Errorf("%v", second.User)
	}
	w := h.Want(nodetest.Request{As: "anonymous", Method: "GET", Path: "/v1/me/preflight", Header: map[string]string{"Authorization": "Bearer " + second.AccessToken}}, 200)
	if !strings.Contains(w.Body.String(), "may_publish") {
		t.Error("the access token is not accepted")
	}
	h.Machine.Advance(time.Minute)
	refresh(first.RefreshToken, 401)
	refresh(second.RefreshToken, 401)
}

func TestAMediumIsNotServedByAChangedURL(t *testing.T) {
	c := newScenarioNode(t)
	url := c.words.Replace("{url-ben}")
	c.Get("anonymous", url, 200)
	for _, other := range []string{
		strings.Replace(url, "/0?", "/0-320?", 1), strings.Replace(url, nodetest.User("ben").String(), nodetest.User("ana").String(), 1),
		strings.Replace(url, c.words.Replace("{followers}"), c.words.Replace("{friends}"), 1), strings.Replace(url, "until=1", "until=2", 1),
		url + "&moderator=1", strings.Split(url, "?")[0],
	} {
		if w := c.Do(nodetest.Request{As: "anonymous", Method: "GET", Path: other}); w.Code != 404 {
			t.Errorf("%s: %d", other, w.Code)
		}
	}
}

// A medium costs one write, and one more for each 8 MiB after the first, whichever way
// it is sent and whether or not it is accepted.
func TestMediaCostWritesByTheirBytes(t *testing.T) {
	h := newTestNode(t, func(c *config.Config) { c.Rates.Writes = config.Rate{Count: 6, Per: time.Hour} })
	upload := nodetest.ReadJSON[wire.Upload](t, h.Want(nodetest.Request{As: "ana", Method: "POST", Path: "/v1/uploads", Body: fmt.Sprintf(`{"media":[{"length":%[1]d},{"length":%[1]d}]}`, 17<<20)}, 201))
	long := picture(t, 1) + strings.Repeat("x", 17<<20-len(picture(t, 1)))
	put := func(n int, body string, want int) {
		t.Helper()
		h.Want(nodetest.Request{As: "ana", Method: "PUT", Path: fmt.Sprintf("/v1/uploads/%s/%d", upload.ID, n), Type: "image/jpeg", Body: body}, want)
	}
	put(0, long, 201)       // 1 + 3 of 6
	put(1, "no photo", 400) // 5
	put(1, long, 429)       // 6 and one more
	put(1, "no photo", 429)
	h.Want(nodetest.Request{As: "ben", Method: "POST", Path: "/v1/stories", Type: "image/jpeg", Body: long}, 201)
	h.Want(nodetest.Request{As: "ben", Method: "POST", Path: "/v1/stories", Type: "image/jpeg", Body: long}, 201)
	h.Want(nodetest.Request{As: "ben", Method: "POST", Path: "/v1/stories", Type: "image/jpeg", Body: string(picture(t, 1))}, 429)
}

// The budget is freed by publishing; Retry-After is the end of the oldest upload.
func TestReservingOverTheBudgetIsAnswered429(t *testing.T) {
	h := newTestNode(t, func(c *config.Config) { c.Media.MaxOpen = 2 })
	reserve := nodetest.Request{As: "ana", Method: "POST", Path: "/v1/uploads", Body: announced(1)}
	upload := nodetest.ReadJSON[wire.Upload](t, h.Want(reserve, 201))
	h.Machine.Advance(time.Hour)
	h.Want(reserve, 201)
	w := h.Want(reserve, 429)
	if got := w.Header().Get("Retry-After"); got != fmt.Sprint(23*60*60) || !strings.Contains(w.Body.String(), "2 uploads with 8192 bytes are reserved and not published") || !strings.Contains(w.Body.String(), `"hint":"publish`) {
		t.Errorf("Retry-After %s: %s", got, w.Body)
	}
	h.Want(nodetest.Request{As: "ana", Method: "PUT", Path: "/v1/uploads/" + upload.ID.String() + "/0", Type: "image/jpeg", Body: padded(t, 1)}, 201)
	h.Want(nodetest.Request{As: "ana", Method: "POST", Path: "/v1/stories", Body: `{"upload":"` + upload.ID.String() + `"}`}, 201)
	h.Want(reserve, 201)
	h.Want(reserve, 429)
}

func TestWhileTheClockIsInDoubtWritesAreRefusedAndReadsAreServed(t *testing.T) {
	h := newTestNode(t)
	s := h.Publish("ana", `{"audience":"everyone"}`)
	h.Machine.Step(time.Hour)
	body, typ := nodetest.Form(t, "media", picture(t, 1))
	for _, q := range []nodetest.Request{
		{As: "ana", Method: "POST", Path: "/v1/stories", Type: typ, Body: body},
		{As: "ana", Method: "POST", Path: "/v1/uploads", Body: announced(1)},
		{As: "admin", Method: "PUT", Path: "/v1/holds/" + s.ID.String(), Body: `{"reason":"x"}`, Admin: true},
	} {
		w := h.Want(q, 503)
		if !strings.Contains(w.Body.String(), `"hint"`) || w.Header().Get("Retry-After") == "" {
			t.Errorf("%s: %s", q.Path, w.Body)
		}
	}
	h.Get("anonymous", "/v1/stories/"+s.ID.String(), 200)
	h.Machine.Step(23 * time.Hour) // the gate hides by the stepped time (L7)
	h.Get("anonymous", "/v1/stories/"+s.ID.String(), 410)
	h.Machine.Step(-24 * time.Hour)
	h.Get("anonymous", "/v1/stories/"+s.ID.String(), 200)
}

func TestAnAmbiguousBodyOrQueryIsRefused(t *testing.T) {
	h := newTestNode(t)
	for _, body := range []string{
		`{"media":[{"length":1}],"media":[]}`, `{"Media":[{"length":1}]}`, `{"MEDIA":[{"length":1}]}`, `{"media":[{"length":1}]}{}`, `{"media":[{"length":1}]} x`, `{"media":[{"length":1}],}`,
		`{"media":[{"length":NaN}]}`, `{"media":[{"length":"1"}]}`, `{"media":[{"length":1.5}]}`, `{"media":[{"Length":1}]}`, `{"media":[{"length":1,"length":2}]}`, `{"media":[{"length":1,"LENGTH":2}]}`, `{"media":[{"length":1,"x":2}]}`,
		"{\"media\":[{\"length\":1}],\"\xff\":2}", strings.Repeat(`{"media":`, 10_000), `{"media":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "}", `null`, `"x"`, ``, ` `,
	} {
		w := h.Do(nodetest.Request{As: "ana", Method: "POST", Path: "/v1/uploads", Type: "application/json", Body: body})
		if w.Code != 400 && w.Code != 413 || !strings.Contains(w.Body.String(), `"hint"`) {
			t.Errorf("%.60s: %d %s", body, w.Code, w.Body)
		}
	}
	for _, caption := range []string{`\ud800`, `a\udc00`, `\ud800x`} {
		form, typ := nodetest.Form(t, "story", `{"caption":"`+caption+`"}`, "media", picture(t, 1))
		h.Want(nodetest.Request{As: "ana", Method: "POST", Path: "/v1/stories", Type: typ, Body: form}, 400)
	}
	form, typ := nodetest.Form(t, "story", `{"caption":"\ud83c\udf0a \ufffd"}`, "media", picture(t, 1))
	h.Want(nodetest.Request{As: "ana", Method: "POST", Path: "/v1/stories", Type: typ, Body: form}, 201)
	for _, query := range []string{"limit=1&limit=2", "cursor=%zz", "a;b=1", "limit=1&cursor=a&cursor=b"} {
		h.Get("ana", "/v1/me/archive?"+query, 400)
	}
	h.Want(nodetest.Request{As: "ana", Method: "POST", Path: "/v1/uploads", Body: announced(1), Header: map[string]string{"Content-Encoding": "gzip"}}, 415)
}

// A load balancer asks the public listener, which must not reveal the reason.
func TestThePublicListenerReportsThatItIsNotReadyWithoutAReason(t *testing.T) {
	for name, disturb := range map[string]func(h *testNode){
		"it is stopping":        func(h *testNode) { h.Leave() },
		"its clock is in doubt": func(h *testNode) { h.Machine.Step(time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			h := newTestNode(t)
			s := h.Publish("ana", `{"audience":"everyone"}`)
			disturb(h)
			for _, method := range []string{"GET", "HEAD"} {
				w := h.Want(nodetest.Request{As: "anonymous", Method: method, Path: "/readyz"}, 503)
				if w.Header().Get("Retry-After") == "" || !strings.Contains(w.Header().Get("Cache-Control"), "no-store") {
					t.Errorf("%s: %v", method, w.Header())
				}
				if body := strings.TrimSpace(w.Body.String()); method == "GET" && body != `{"ready":false}` {
					t.Errorf("the body is %s", body)
				}
			}
			h.Get("anonymous", "/v1/stories/"+s.ID.String(), 200)
			for line := range strings.Lines(h.Logs.String()) {
				if strings.Contains(line, "/readyz") && strings.Contains(line, "ERROR") {
					t.Errorf("the answer is logged as an error: %s", line)
				}
			}
		})
	}
}

func TestReadinessIsNotRateLimited(t *testing.T) {
	h := newTestNode(t, func(c *config.Config) { c.Rates.AddressReads = config.Rate{Count: 2, Per: time.Minute} })
	for range 20 {
		h.Get("anonymous", "/readyz", 200)
	}
}
