package e2e

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/mayflyhq/mayfly/api/wire"
)

// C4: where a picture was taken does not come out of any way in, nor does
// whatever was hidden behind it: not to viewers, not into smaller pictures, not
// into a copy, not onto the disk.
func TestPlacesDoNotComeThroughAnyWayIn(t *testing.T) {
	cfg := badConfig(t)
	h := openBadServer(t, cfg)
	files := []struct{ name, typ, file string }{
		{"JPEG", "image/jpeg", placedJPEG()},
		{"PNG", "image/png", placedPNG()},
		{"GIF", "image/gif", placedGIF()},
		{"WebP", "image/webp", placedWebP()},
		{"MP4", "video/mp4", placedMP4()},
		{"WebM", "video/webm", placedWebM()},
		{"JPEG with a megabyte of ZIP behind it", "image/jpeg", placedJPEG() + strings.Repeat("PK\x03\x04"+badPlace, 1<<20/(4+len(badPlace)))},
		{"GIF that is JavaScript", "image/gif", strings.Replace(placedGIF(), "\x21\xfe", "\x21\xfe\x17=1;/*"+badPlace[:18]+"\x00\x21\xfe", 1) + "*/=1;alert('" + badPlace + "')"},
		{"PNG with a page behind it", "image/png", placedPNG() + "<html><script>alert('" + badPlace + "')</script>"},
	}
	looked := 0
	for _, f := range files {
		if !strings.Contains(f.file, badPlace) || f.name != "MP4" && !strings.Contains(f.file, badDegs) {
			t.Fatalf("%s: there is no place in it", f.name)
		}
		for _, way := range h.waysIn() {
			t.Run(f.name+"/"+way.name, func(t *testing.T) {
				within := h.in(t)
				looked += within.looks(way.publish(within, f.typ, f.file), f.typ)
			})
		}
	}
	for object := range h.everything() {
		if where := placeIn(object.bytes); where != "" {
			t.Errorf("%s holds a place: %s", object.key, where)
		}
		looked++
	}
	files2 := h.grepFolder()
	t.Logf("%d kinds of file by %d ways in: %d objects and %d files of the data folder looked through, none has a place in it", len(files), len(h.waysIn()), looked, files2)
}

// badWay is a way in for one medium.
type badWay struct {
	name    string
	publish func(h *badServer, typ, file string) wire.Story
}

func (h *badServer) waysIn() []badWay {
	multipart := func(h *badServer, _, file string) wire.Story {
		form := badForm{{"story", `{"audience":"everyone"}`}, {"media", file}, {"media", file}}
		return badRead[wire.Story](h.T, h.send(badAsk{as: "ana", method: http.MethodPost, target: "/v1/stories", typ: form.typ(), body: form.text()}), http.StatusCreated)
	}
	return []badWay{
		{"form", multipart},
		{"raw", func(h *badServer, typ, file string) wire.Story {
			return badRead[wire.Story](h.T, h.send(badAsk{as: "ana", method: http.MethodPost, target: "/v1/stories?audience=everyone", typ: typ, body: file}), http.StatusCreated)
		}},
		{"raw of no type", func(h *badServer, _, file string) wire.Story {
			return badRead[wire.Story](h.T, h.send(badAsk{as: "ana", method: http.MethodPost, target: "/v1/stories?audience=everyone", typ: "application/octet-stream", body: file, chunked: true}), http.StatusCreated)
		}},
		{"reserve and put", func(h *badServer, typ, file string) wire.Story {
			upload := h.reserves("ana", 1)
			put := h.send(badAsk{as: "ana", method: http.MethodPut, target: "/v1/uploads/" + upload + "/0", typ: typ, body: file})
			badRead[wire.Uploaded](h.T, put, http.StatusCreated)
			return badRead[wire.Story](h.T, h.send(badAsk{as: "ana", method: http.MethodPost, target: "/v1/stories", typ: "application/json", body: `{"audience":"everyone","upload":"` + upload + `"}`}), http.StatusCreated)
		}},
		{"reshare", func(h *badServer, typ, file string) wire.Story {
			first := multipart(h, typ, file)
			return badRead[wire.Story](h.T, h.send(badAsk{as: "ana", method: http.MethodPost, target: "/v1/stories/" + first.ID.String() + "/reshare"}), http.StatusCreated)
		}},
	}
}

// looks loads every object of a story, and says how many there were.
func (h *badServer) looks(s wire.Story, typ string) (looked int) {
	h.Helper()
	load := func(url string) {
		h.Helper()
		a := h.send(badAsk{method: http.MethodGet, target: url})
		if a.status != http.StatusOK || len(a.body) == 0 {
			h.Fatalf("%s: %d %s", url, a.status, excerpt(a.body))
		}
		if where := placeIn(a.body); where != "" {
			h.Errorf("%s: a place came through: %s", url, where)
		}
		looked++
	}
	for _, m := range s.Media {
		if m.Type != typ || strings.HasPrefix(typ, "image/") != (len(m.Renditions) == 2) {
			h.Errorf("it became %s with %d smaller pictures", m.Type, len(m.Renditions))
		}
		load(m.URL)
		for _, r := range m.Renditions {
			load(r.URL)
		}
	}
	return looked
}

// placeIn says what of a place is in some bytes.
func placeIn(b []byte) string {
	for what, secret := range map[string]string{"its text": badPlace[6:14], "its degrees": badDegs, "a position in EXIF": "\x25\x88\x04\x00", "XMP": "xmpmeta", "a script": "alert(", "a ZIP": "PK\x03\x04"} {
		if bytes.Contains(b, []byte(secret)) {
			return what
		}
	}
	return ""
}
