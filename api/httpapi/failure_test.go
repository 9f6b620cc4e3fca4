package httpapi_test

import (
	"bytes"
	"context"
	"image"
	"image/jpeg"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/app/config"
)

// corrupt replaces the bytes of a story's first medium in hot storage.
func (h *testNode) corrupt(s wire.Story) {
	h.t.Helper()
	rows, err := h.set.Ledger.Get(context.Background(), s.ID)
	if err != nil {
		h.t.Fatal(err)
	}
	item := rows[0].Item
	key := item.MediaKey(item.Keys.Hot, 0)
	if err := h.set.Hot.Delete(context.Background(), key); err != nil {
		h.t.Fatal(err)
	}
	if _, err := h.set.Hot.Put(context.Background(), key, bytes.NewReader(bytes.Repeat([]byte("x"), int(s.Media[0].Size)))); err != nil {
		h.t.Fatal(err)
	}
}

// large returns a picture that takes more than one write to send.
func large(t testing.TB) string {
	img := image.NewRGBA(image.Rect(0, 0, 1000, 1000))
	x := uint32(1)
	for i := range img.Pix {
		x = x*1664525 + 1013904223
		img.Pix[i] = byte(x >> 24)
	}
	var b bytes.Buffer
	if err := jpeg.Encode(&b, img, nil); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Bytes that are not what was uploaded are answered with a complete problem (I14).
func TestACorruptMediumIsAnsweredWithAProblem(t *testing.T) {
	h := newTestNode(t)
	s := h.publish("ana", `{"audience":"everyone"}`)
	h.corrupt(s)
	server := httptest.NewServer(h.api.Public())
	defer server.Close()
	res, err := http.Get(server.URL + s.Media[0].URL)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusInternalServerError || !strings.Contains(string(body), `"broken"`) {
		t.Errorf("%d %q, %v", res.StatusCode, body, err)
	}
}

// An answer that was aborted is counted, and no longer counts as in progress (O3).
func TestAnAbortedAnswerIsCounted(t *testing.T) {
	h := newTestNode(t)
	form, typ := formOf(t, "story", `{"audience":"everyone"}`, "media", large(t))
	s := read[wire.Story](t, h.must(request{as: "ana", method: "POST", path: "/v1/stories", typ: typ, body: form}, 201))
	h.corrupt(s)
	server := httptest.NewServer(h.api.Public())
	for range 3 {
		res, err := http.Get(server.URL + s.Media[0].URL)
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, res.Body)
		if res.Body.Close(); err == nil {
			t.Errorf("%d: the answer ended without an error after %d bytes", res.StatusCode, n)
		}
	}
	server.Close() // waits for the handlers
	metrics := h.do(request{as: "anonymous", method: "GET", path: "/metrics", admin: true}).Body.String()
	for _, want := range []string{
		`mayfly_http_requests_total{method="GET",product="story",route="/v1/media/{id}/{object}",status="200"} 3`,
		"mayfly_http_requests_underway 1", // the request for the metrics
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no %s", want)
		}
	}
}

// An administrator sees no content, and so gets no token of another user (C2).
func TestAnAdministratorGetsNoTokensForAUser(t *testing.T) {
	h := newTestNode(t)
	for as, want := range map[string]int{"admin": 403, "moderator": 403, "ana": 403, "anonymous": 401, "service": 200} {
		h.must(request{as: as, method: "POST", path: "/v1/token", body: `{"user":"~ben"}`}, want)
	}
}

// The service's own token is valid, so the answer is 403 and not 401 (C1).
func TestAServiceGetsNoTokensForAnErasedAccount(t *testing.T) {
	h := newTestNode(t)
	h.publish("ana", `{"audience":"everyone"}`)
	h.must(request{as: "admin", method: "DELETE", path: "/v1/users/~ana", admin: true, body: `{"reason":"asked"}`}, 200)
	h.must(request{as: "service", method: "POST", path: "/v1/token", body: `{"user":"~ana"}`}, 403)
}

// A client that lost the answer may put the same bytes again (I3).
func TestAMediumMayBePutAgain(t *testing.T) {
	h := newTestNode(t)
	u := read[wire.Upload](t, h.must(request{as: "ana", method: "POST", path: "/v1/uploads", body: `{"media":1}`}, 201))
	put := request{as: "ana", method: "PUT", path: "/v1/uploads/" + u.ID.String() + "/0", typ: "image/jpeg", body: picture(t, 3)}
	first := read[wire.Uploaded](t, h.must(put, 201))
	if again := read[wire.Uploaded](t, h.must(put, 201)); again != first {
		t.Errorf("%+v, then %+v", first, again)
	}
	put.body = picture(t, 4)
	h.must(put, 409)
}

// Guessing tokens is limited by address (C3).
func TestBadTokensCountAgainstTheAddress(t *testing.T) {
	h := newTestNode(t, func(c *config.Config) { c.Rates = config.Default().Rates; c.Rates.AddressReads.Count = 5 })
	codes := map[int]int{}
	for range 50 {
		r := httptest.NewRequest("GET", "/v1/users/~ana/ring", http.NoBody)
		r.Header.Set("Authorization", "Bearer a.b.c")
		w := httptest.NewRecorder()
		h.api.Public().ServeHTTP(w, r)
		codes[w.Code]++
	}
	if codes[401] != 5 || codes[429] != 45 {
		t.Error(codes)
	}
}
