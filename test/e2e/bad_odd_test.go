package e2e

import (
	"bytes"
	"compress/zlib"
	"net/http"
	"strings"
	"testing"

	"github.com/mayflyhq/mayfly/api/wire"
)

// An origin that is allowed gets the CORS headers, so the refusals of the others are
// not an accident.
func TestAnAllowedOriginMayAsk(t *testing.T) {
	h := openBadServer(t, badConfig(t))
	story := "/v1/stories/" + h.good.ID.String()
	origin := "Origin: https://app.example.org"
	asked := h.send(badAsk{method: http.MethodOptions, target: story, header: []string{origin, "Access-Control-Request-Method: DELETE"}})
	got := h.send(badAsk{method: http.MethodGet, target: story, header: []string{origin}})
	for _, a := range []answer{asked, got} {
		if a.header.Get("Access-Control-Allow-Origin") != "https://app.example.org" || a.header.Get("Access-Control-Allow-Credentials") != "" || a.header.Get("Vary") != "Origin" {
			t.Errorf("%d %v", a.status, a.header)
		}
	}
	if asked.status != http.StatusNoContent || got.status != http.StatusOK {
		t.Errorf("%d, %d", asked.status, got.status)
	}
}

// What turns the direction of the text beside it, and what no eye sees, does not
// come out of a caption; what texts need stays.
func TestACaptionCannotRewriteThePageItIsShownOn(t *testing.T) {
	h := openBadServer(t, badConfig(t))
	photo := string(picture("captions", 1))
	for in, want := range map[string]string{
		"photo\u202egpj.exe":                        "photogpj.exe",
		"a\u202ab\u202bc\u202dd\u202ce":             "abcde",
		"a\u2066b\u2067c\u2068d\u2069e":             "abcde",
		`a\u0007b\u001bc\u007fd\u0085e\u202ef`:      "abcdef",
		"שלום\u200e (ana)\u200f":                    "שלום\u200e (ana)\u200f",
		"👩\u200d👩\u200d👧 and \\\"quotes\\\" <b>\\n": "👩\u200d👩\u200d👧 and \"quotes\" <b>\n",
		`\ud83d\ude00`:                              "😀",
	} {
		form := badForm{{"story", `{"caption":"` + in + `","overlays":[{"kind":"text","x":0,"y":0,"text":"` + in + `"}]}`}, {"media", photo}}
		a := h.send(badAsk{as: "ana", method: http.MethodPost, target: "/v1/stories", typ: form.typ(), body: form.text()})
		story := badRead[wire.Story](t, a, http.StatusCreated)
		if story.Caption != want {
			t.Errorf("%q became %q, not %q", in, story.Caption, want)
		}
		if strings.ContainsAny(string(story.Overlays), "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069") || strings.Contains(string(story.Overlays), `\u202`) {
			t.Errorf("%q stayed in %s", in, story.Overlays)
		}
	}
}

// A picture that looks like one and cannot be decoded is kept as it is; asking
// for a smaller one of it, over and over, is answered and costs nothing.
func TestAPictureThatCannotBeDecodedHasNoSmallerOne(t *testing.T) {
	h := openBadServer(t, badConfig(t))
	noise := badPNGHead + badChunk("IHDR", badU32(2000)+badU32(2000)+"\x08\x06\x00\x00\x00") + badChunk("IDAT", "12345678") + badChunk("IEND", "")
	for name, file := range map[string]string{"a PNG without rows": badPNG(2000, 2000), "a PNG with noise for rows": noise} {
		a := h.send(badAsk{as: "ana", method: http.MethodPost, target: "/v1/stories?audience=everyone", typ: "image/png", body: file})
		story := badRead[wire.Story](t, a, http.StatusCreated)
		asked := request{method: http.MethodGet, target: "/v1/media/" + story.ID.String() + "/0-320"}
		for range 20 {
			a := h.send(badAsk{as: "ben", method: asked.method, target: asked.target})
			if a.status != http.StatusNotFound {
				t.Fatalf("%s: %d %s", name, a.status, excerpt(a.body))
			}
			if err := h.documented(asked, a); err != nil {
				t.Error(err)
			}
		}
		if a := h.send(badAsk{as: "ben", method: http.MethodGet, target: "/v1/media/" + story.ID.String() + "/0"}); a.status != http.StatusOK {
			t.Errorf("%s itself: %d %s", name, a.status, excerpt(a.body))
		}
	}
}

// A picture of a few kilobytes may unpack to as many pixels as are allowed, and
// to no more memory than those take while it is made smaller.
func TestAPictureThatUnpacksToTheLimitTakesWhatItsPixelsTake(t *testing.T) {
	cfg := badConfig(t)
	cfg.Stories.MaxPixels = 4_000_000
	h := openBadServer(t, cfg)
	var rows bytes.Buffer
	w := zlib.NewWriter(&rows)
	for range 2000 {
		if _, err := w.Write(make([]byte, 1+2000*8)); err != nil { // 16 bits a colour: the most that a PNG can have
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	file := badPNGHead + badChunk("IHDR", badU32(2000)+badU32(2000)+"\x10\x06\x00\x00\x00") + badChunk("IDAT", rows.String()) + badChunk("IEND", "")
	heap := watchHeap()
	a := h.send(badAsk{as: "ana", method: http.MethodPost, target: "/v1/stories?audience=everyone", typ: "image/png", body: file})
	story := badRead[wire.Story](t, a, http.StatusCreated)
	for range 4 {
		for _, r := range story.Media[0].Renditions {
			if a := h.send(badAsk{method: http.MethodGet, target: r.URL}); a.status != http.StatusOK {
				t.Errorf("%d %s", a.status, excerpt(a.body))
			}
		}
	}
	grew := heap.stop()
	if most := cfg.Stories.MaxPixels*16 + 16<<20; grew > most {
		t.Errorf("the heap grew by %d MiB, at most %d", grew>>20, most>>20)
	}
	t.Logf("%d bytes, 4,000,000 pixels: the heap grew by %d MiB", len(file), grew>>20)
}
