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

// spoil replaces the bytes of a story's first medium in hot storage.
func (h *house) spoil(s wire.Story) {
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

// large is a picture that takes more than one write to send.
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

// I14: bytes that are not what was uploaded are an error, and the error is whole.
func TestAMediumThatIsSpoiledIsAnErrorThatCanBeRead(t *testing.T) {
	h := newHouse(t)
	s := h.publish("ana", `{"audience":"everyone"}`)
	h.spoil(s)
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

// O3: an answer that is broken off is counted, and is not under way for ever.
func TestAnAnswerThatIsBrokenOffIsMeasured(t *testing.T) {
	h := newHouse(t)
	form, typ := formOf(t, "story", `{"audience":"everyone"}`, "media", large(t))
	s := read[wire.Story](t, h.must(request{as: "ana", method: "POST", path: "/v1/stories", typ: typ, body: form}, 201))
	h.spoil(s)
	server := httptest.NewServer(h.api.Public())
	for range 3 {
		res, err := http.Get(server.URL + s.Media[0].URL)
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, res.Body)
		if res.Body.Close(); err == nil {
			t.Errorf("%d: %d bytes came to a clean end", res.StatusCode, n)
		}
	}
	server.Close() // waits for the handlers
	metrics := h.ask(request{as: "anonymous", method: "GET", path: "/metrics", admin: true}).Body.String()
	for _, want := range []string{
		`mayfly_http_requests_total{method="GET",product="story",route="/v1/media/{id}/{object}",status="200"} 3`,
		"mayfly_http_requests_underway 1", // the one that asks
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no %s", want)
		}
	}
}

// C2: an administrator sees no content by being one, and makes nobody else of himself.
func TestAnAdministratorGetsNoTokensForAUser(t *testing.T) {
	h := newHouse(t)
	for as, want := range map[string]int{"admin": 403, "moderator": 403, "ana": 403, "anonymous": 401, "service": 200} {
		h.must(request{as: as, method: "POST", path: "/v1/token", body: `{"user":"~ben"}`}, want)
	}
}

// C1: the service is known; that its user is erased is no fault of its token.
func TestAServiceIsToldThatAnAccountIsErased(t *testing.T) {
	h := newHouse(t)
	h.publish("ana", `{"audience":"everyone"}`)
	h.must(request{as: "admin", method: "DELETE", path: "/v1/users/~ana", admin: true, body: `{"reason":"asked"}`}, 200)
	h.must(request{as: "service", method: "POST", path: "/v1/token", body: `{"user":"~ana"}`}, 403)
}

// I3: whoever lost the answer puts the same bytes again.
func TestAMediumMayBePutAgain(t *testing.T) {
	h := newHouse(t)
	u := read[wire.Upload](t, h.must(request{as: "ana", method: "POST", path: "/v1/uploads", body: `{"media":1}`}, 201))
	put := request{as: "ana", method: "PUT", path: "/v1/uploads/" + u.ID.String() + "/0", typ: "image/jpeg", body: picture(t, 3)}
	first := read[wire.Uploaded](t, h.must(put, 201))
	if again := read[wire.Uploaded](t, h.must(put, 201)); again != first {
		t.Errorf("%+v, then %+v", first, again)
	}
	put.body = picture(t, 4)
	h.must(put, 409)
}

// C3: trying tokens is limited by the address that tries them.
func TestBadTokensAreTakenFromTheAddress(t *testing.T) {
	h := newHouse(t, func(c *config.Config) { c.Rates = config.Default().Rates; c.Rates.AddressReads.Count = 5 })
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
