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
	"github.com/mayflyhq/mayfly/test/fixture/nodetest"
)

// corrupt replaces the bytes of a story's first medium in hot storage.
func (h *testNode) corrupt(s wire.Story) {
	h.Helper()
	rows, err := h.Set.Ledger.Get(context.Background(), s.ID)
	if err != nil {
		h.Fatal(err)
	}
	item := rows[0].Item
	key := item.MediaKey(item.Keys.Hot, 0)
	if err := h.Set.Hot.Delete(context.Background(), key); err != nil {
		h.Fatal(err)
	}
	if _, err := h.Set.Hot.Put(context.Background(), key, bytes.NewReader(bytes.Repeat([]byte("x"), int(s.Media[0].Size)))); err != nil {
		h.Fatal(err)
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
	s := h.Publish("ana", `{"audience":"everyone"}`)
	h.corrupt(s)
	server := httptest.NewServer(h.Handlers.Public())
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
	form, typ := nodetest.Form(t, "story", `{"audience":"everyone"}`, "media", large(t))
	s := nodetest.ReadJSON[wire.Story](t, h.Want(nodetest.Request{As: "ana", Method: "POST", Path: "/v1/stories", Type: typ, Body: form}, 201))
	h.corrupt(s)
	server := httptest.NewServer(h.Handlers.Public())
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
	metrics := h.Do(nodetest.Request{As: "anonymous", Method: "GET", Path: "/metrics", Admin: true}).Body.String()
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
		h.Want(nodetest.Request{As: as, Method: "POST", Path: "/v1/token", Body: `{"user":"~ben"}`}, want)
	}
}

// The service's own token is valid, so the answer is 403 and not 401 (C1).
func TestAServiceGetsNoTokensForAnErasedAccount(t *testing.T) {
	h := newTestNode(t)
	h.Publish("ana", `{"audience":"everyone"}`)
	h.Want(nodetest.Request{As: "admin", Method: "DELETE", Path: "/v1/users/~ana", Admin: true, Body: `{"reason":"asked"}`}, 200)
	h.Want(nodetest.Request{As: "service", Method: "POST", Path: "/v1/token", Body: `{"user":"~ana"}`}, 403)
}

// A client that lost the answer may put the same bytes again (I3).
func TestAMediumMayBePutAgain(t *testing.T) {
	h := newTestNode(t)
	u := nodetest.ReadJSON[wire.Upload](t, h.Want(nodetest.Request{As: "ana", Method: "POST", Path: "/v1/uploads", Body: announced(1)}, 201))
	put := nodetest.Request{As: "ana", Method: "PUT", Path: "/v1/uploads/" + u.ID.String() + "/0", Type: "image/jpeg", Body: padded(t, 3)}
	first := nodetest.ReadJSON[wire.Uploaded](t, h.Want(put, 201))
	if again := nodetest.ReadJSON[wire.Uploaded](t, h.Want(put, 201)); again != first {
		t.Errorf("%+v, then %+v", first, again)
	}
	put.Body = padded(t, 4)
	h.Want(put, 409)
}

// Guessing tokens is limited by address (C3).
func TestBadTokensCountAgainstTheAddress(t *testing.T) {
	h := newTestNode(t, func(c *config.Config) { c.Rates = config.Default().Rates; c.Rates.AddressReads.Count = 5 })
	codes := map[int]int{}
	for range 50 {
		r := httptest.NewRequest("GET", "/v1/users/~ana/ring", http.NoBody)
		r.Header.Set("Authorization", "Bearer a.b.c")
		w := httptest.NewRecorder()
		h.Handlers.Public().ServeHTTP(w, r)
		codes[w.Code]++
	}
	if codes[401] != 5 || codes[429] != 45 {
		t.Error(codes)
	}
}
