package httpapi_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/app/config"
)

func TestACallerOverItsRateGetsRetryAfter(t *testing.T) {
	h := newTestNode(t, func(c *config.Config) {
		c.Rates.Writes = config.Rate{Count: 2, Per: time.Hour}
		c.Rates.Reads = config.Rate{Count: 3, Per: time.Minute}
		c.Rates.AddressReads = config.Rate{Count: 2, Per: time.Minute}
		c.Listen.Proxies = []string{"192.0.2.0/24"}
	})
	s := h.publish("ana", `{"audience":"everyone"}`)
	path := "/v1/stories/" + s.ID.String()
	h.publish("ana", `{"audience":"everyone"}`)
	body, typ := formOf(t, "media", picture(t, 1))
	w := h.must(request{as: "ana", method: "POST", path: "/v1/stories", typ: typ, body: body}, 429)
	if got := w.Header().Get("Retry-After"); got != "1800" {
		t.Errorf("Retry-After %s, want 1800", got)
	}
	for range 3 {
		h.get("ben", path, 200)
	}
	if got := h.get("ben", path, 429).Header().Get("Retry-After"); got != "20" {
		t.Errorf("Retry-After %s, want 20", got)
	}
	h.must(request{as: "service:ben", method: "GET", path: path}, 429) // the user's limits count (C1)
	behind := func(addresses string) int {
		return h.do(request{as: "anonymous", method: "GET", path: path, header: map[string]string{"X-Forwarded-For": addresses}}).Code
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
	media := read[wire.Story](t, h.get("ana", path, 200)).Media[0].URL
	for range 20 { // a signed URL was counted when it was returned
		h.get("anonymous", media, 200)
	}
}

func TestAnAmbiguousPathIsRefused(t *testing.T) {
	h := newTestNode(t)
	for _, path := range []string{
		"//v1/stories/x", "/v1//stories/x", "/v1/stories/../me/archive", "/v1/stories/%2e%2e/x", "/v1/stories/a%2fb", "/v1/stories/a%5cb",
		"/v1/stories/a%00b", "/v1/stories/%0d%0ax", "/v1/stories/%252e", "/./", "/v1/stories/%ff",
	} {
		w := h.do(request{as: "anonymous", method: "GET", path: path})
		if w.Code != 400 || !strings.Contains(w.Body.String(), `"hint"`) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	for _, path := range []string{"/v1", "/v1/", "/v1/stories/x/", "/v2/stories/x", "/v1/Stories/x", "/v1/me", "/docs", "/openapi.json/"} {
		h.get("anonymous", path, 404)
	}
}

func TestAnUnsupportedMethodGetsAllow(t *testing.T) {
	h := newTestNode(t)
	for path, allow := range map[string]string{
		"/v1/stories": "POST", "/v1/stories/x": "DELETE, GET, HEAD", "/v1/media/x/0": "GET, HEAD", "/v1/me/blocks/x": "DELETE, PUT",
	} {
		w := h.must(request{as: "anonymous", method: "PATCH", path: path}, 405)
		if got := w.Header().Get("Allow"); got != allow {
			t.Errorf("%s: Allow %s, want %s", path, got, allow)
		}
	}
}

func TestOnlyConfiguredOriginsMayCallFromABrowser(t *testing.T) {
	ask := func(h *testNode, origin, method string, admin bool) http.Header {
		q := request{as: "anonymous", method: method, path: "/v1/stories", header: map[string]string{"Origin": origin}, admin: admin}
		if method == "OPTIONS" {
			q.header["Access-Control-Request-Method"] = "POST"
		}
		return h.do(q).Header()
	}
	const good, bad = "https://app.example.org", "https://evil.example.org"
	some := newTestNode(t, func(c *config.Config) { c.Listen.Origins = []string{good} })
	if h := ask(some, good, "OPTIONS", false); h.Get("Access-Control-Allow-Origin") != good || !strings.Contains(h.Get("Access-Control-Allow-Headers"), "Idempotency-Key") || h.Get("Vary") != "Origin" {
		t.Errorf("an allowed origin gets %v", h)
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

func TestARequestKeepsItsIDIfAllCharactersAreAllowed(t *testing.T) {
	h := newTestNode(t)
	for sent, kept := range map[string]bool{"abc-123": true, "": false, "a b": false, "a\"b": false, strings.Repeat("x", 65): false} {
		w := h.do(request{as: "anonymous", method: "GET", path: "/", header: map[string]string{"Mayfly-Request": sent}})
		if got := w.Header().Get("Mayfly-Request"); (got == sent) != kept || got == "" {
			t.Errorf("sent %q, got %q", sent, got)
		}
	}
}

func TestAStoryThatTheClientHasIsNotModified(t *testing.T) {
	h := newTestNode(t)
	s := h.publish("ana", `{"audience":"everyone"}`)
	path := "/v1/stories/" + s.ID.String()
	tag := h.get("ben", path, 200).Header().Get("Etag")
	same := request{as: "ben", method: "GET", path: path, header: map[string]string{"If-None-Match": `"other", W/` + tag}}
	if w := h.must(same, 304); w.Body.Len() != 0 || w.Header().Get("Etag") != tag {
		t.Errorf("304 with %q, %v", w.Body, w.Header())
	}
	h.machine.Advance(time.Minute) // its URLs have expired
	h.must(same, 200)
	h.machine.Advance(24 * time.Hour)
	h.must(same, 410)
}

func TestARangeOfAMediumReturnsThoseBytes(t *testing.T) {
	h := newTestNode(t)
	s := h.publish("ana", `{"audience":"everyone"}`)
	url := "/v1/media/" + s.ID.String() + "/0"
	whole := h.get("ben", url, 200).Body.Bytes()
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
		w := h.must(request{as: "ben", method: "GET", path: url, header: map[string]string{"Range": text}}, status)
		if !bytes.Equal(w.Body.Bytes(), want) || w.Header().Get("Content-Length") != fmt.Sprint(len(want)) {
			t.Fatalf("seed %d: %s of %d bytes: %d bytes", seed, text, size, w.Body.Len())
		}
	}
}

func TestAReusedRefreshTokenRevokesItsFamily(t *testing.T) {
	h := newTestNode(t)
	refresh := func(token string, status int) wire.Tokens {
		w := h.must(request{as: "anonymous", method: "POST", path: "/v1/token", body: `{"refresh_token":"` + token + `"}`}, status)
		if status != 200 {
			return wire.Tokens{}
		}
		return read[wire.Tokens](t, w)
	}
	first := read[wire.Tokens](t, h.must(request{as: "service", method: "POST", path: "/v1/token", body: `{"user":"~ana"}`}, 200))
	second := refresh(first.RefreshToken, 200)
	if second.User != user("ana") || second.RefreshToken == first.RefreshToken {
		t.Errorf("%v", second.User)
	}
	w := h.must(request{as: "anonymous", method: "GET", path: "/v1/me/preflight", header: map[string]string{"Authorization": "Bearer " + second.AccessToken}}, 200)
	if !strings.Contains(w.Body.String(), "may_publish") {
		t.Error("the access token is not accepted")
	}
	h.machine.Advance(time.Minute)
	refresh(first.RefreshToken, 401)
	refresh(second.RefreshToken, 401)
}

func TestAMediumIsNotServedByAChangedURL(t *testing.T) {
	c := newScenarioNode(t)
	url := c.words.Replace("{url-ben}")
	c.get("anonymous", url, 200)
	for _, other := range []string{
		strings.Replace(url, "/0?", "/0-320?", 1), strings.Replace(url, user("ben").String(), user("ana").String(), 1),
		strings.Replace(url, c.words.Replace("{followers}"), c.words.Replace("{friends}"), 1), strings.Replace(url, "until=1", "until=2", 1),
		url + "&moderator=1", strings.Split(url, "?")[0],
	} {
		if w := c.do(request{as: "anonymous", method: "GET", path: other}); w.Code != 404 {
			t.Errorf("%s: %d", other, w.Code)
		}
	}
}

func TestWhileTheClockIsInDoubtWritesAreRefusedAndReadsAreServed(t *testing.T) {
	h := newTestNode(t)
	s := h.publish("ana", `{"audience":"everyone"}`)
	h.machine.Step(time.Hour)
	body, typ := formOf(t, "media", picture(t, 1))
	for _, q := range []request{
		{as: "ana", method: "POST", path: "/v1/stories", typ: typ, body: body},
		{as: "ana", method: "POST", path: "/v1/uploads", body: `{"media":1}`},
		{as: "admin", method: "PUT", path: "/v1/holds/" + s.ID.String(), body: `{"reason":"x"}`, admin: true},
	} {
		w := h.must(q, 503)
		if !strings.Contains(w.Body.String(), `"hint"`) || w.Header().Get("Retry-After") == "" {
			t.Errorf("%s: %s", q.path, w.Body)
		}
	}
	h.get("anonymous", "/v1/stories/"+s.ID.String(), 200)
	h.machine.Step(23 * time.Hour) // the gate hides by the stepped time (L7)
	h.get("anonymous", "/v1/stories/"+s.ID.String(), 410)
	h.machine.Step(-24 * time.Hour)
	h.get("anonymous", "/v1/stories/"+s.ID.String(), 200)
}

func TestMetadataOfAPhotoAreRemovedInEveryWayOfUploading(t *testing.T) {
	h := newTestNode(t)
	plain := picture(t, 1)
	const place = "GPS 48.8584N 2.2945E"
	segment := "Exif\x00\x00" + place
	photo := plain[:2] + "\xff\xe1" + string([]byte{byte((len(segment) + 2) >> 8), byte(len(segment) + 2)}) + segment + plain[2:] + place
	form, typ := formOf(t, "media", photo)
	upload := read[wire.Upload](t, h.must(request{as: "ana", method: "POST", path: "/v1/uploads", body: `{"media":1}`}, 201))
	h.must(request{as: "ana", method: "PUT", path: upload.Put[0].URL, typ: "image/jpeg", body: photo}, 201)
	for name, q := range map[string]request{
		"form":   {typ: typ, body: form},
		"body":   {typ: "image/jpeg", body: photo},
		"upload": {body: `{"upload":"` + upload.ID.String() + `"}`},
	} {
		q.as, q.method, q.path = "ana", "POST", "/v1/stories"
		s := read[wire.Story](t, h.must(q, 201))
		for _, url := range []string{s.Media[0].URL, s.Media[0].Renditions[0].URL} {
			if strings.Contains(h.get("anonymous", url, 200).Body.String(), "GPS") {
				t.Errorf("%s: the place is in %s", name, url)
			}
		}
	}
}

func TestAnAmbiguousBodyOrQueryIsRefused(t *testing.T) {
	h := newTestNode(t)
	for _, body := range []string{
		`{"media":1,"media":2}`, `{"Media":1}`, `{"MEDIA":1}`, `{"media":1}{}`, `{"media":1} x`, `{"media":NaN}`, `{"media":1,}`, `{"media":"1"}`, `{"media":1.5}`,
		"{\"media\":1,\"\xff\":2}", strings.Repeat(`{"media":`, 10_000), `{"media":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "}", `null`, `"x"`, ``, ` `,
	} {
		w := h.do(request{as: "ana", method: "POST", path: "/v1/uploads", typ: "application/json", body: body})
		if w.Code != 400 && w.Code != 413 || !strings.Contains(w.Body.String(), `"hint"`) {
			t.Errorf("%.60s: %d %s", body, w.Code, w.Body)
		}
	}
	for _, caption := range []string{`\ud800`, `a\udc00`, `\ud800x`} {
		form, typ := formOf(t, "story", `{"caption":"`+caption+`"}`, "media", picture(t, 1))
		h.must(request{as: "ana", method: "POST", path: "/v1/stories", typ: typ, body: form}, 400)
	}
	form, typ := formOf(t, "story", `{"caption":"\ud83c\udf0a \ufffd"}`, "media", picture(t, 1))
	h.must(request{as: "ana", method: "POST", path: "/v1/stories", typ: typ, body: form}, 201)
	for _, query := range []string{"limit=1&limit=2", "cursor=%zz", "a;b=1", "limit=1&cursor=a&cursor=b"} {
		h.get("ana", "/v1/me/archive?"+query, 400)
	}
	h.must(request{as: "ana", method: "POST", path: "/v1/uploads", body: `{"media":1}`, header: map[string]string{"Content-Encoding": "gzip"}}, 415)
}
