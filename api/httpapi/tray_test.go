package httpapi_test

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/test/fixture/nodetest"
)

func TestATrayIsCompressedAndAskedForAgainByItsTag(t *testing.T) {
	h := newTestNode(t)
	for n := range 12 {
		author := fmt.Sprint("author", n)
		h.Follow(author, "ben")
		h.Publish(author, `{"audience":"followers","lifetime":"6h"}`)
	}
	get := func(header ...string) (status int, tag, body string) {
		t.Helper()
		q := nodetest.Request{As: "ben", Method: "GET", Path: "/v1/me/tray", Header: map[string]string{}}
		for i := 0; i < len(header); i += 2 {
			q.Header[header[i]] = header[i+1]
		}
		w := h.Do(q)
		if !strings.Contains(strings.Join(w.Header().Values("Vary"), ","), "Accept-Encoding") {
			t.Errorf("Vary is %q", w.Header().Values("Vary"))
		}
		body = w.Body.String()
		if w.Header().Get("Content-Encoding") == "gzip" {
			r, err := gzip.NewReader(strings.NewReader(body))
			h.Must(err)
			text, err := io.ReadAll(r)
			h.Must(err)
			if len(body) >= len(text) {
				t.Errorf("%d bytes compressed to %d", len(text), len(body))
			}
			body = "compressed " + string(text)
		}
		return w.Code, w.Header().Get("ETag"), body
	}
	status, tag, plain := get()
	if tray := nodetest.ReadJSON[wire.Tray](t, h.Get("ben", "/v1/me/tray", 200)); status != 200 || len(tray.Slots) != 12 || tag == "" {
		t.Fatalf("%d %s %+v", status, tag, tray)
	}
	for accepts, compressed := range map[string]bool{
		"gzip": true, "br, GZIP;q=0.5": true, "deflate , gzip ; q = 1": true, "gzip;q=0": false, "gzip; q=0.000": false, "br": false, "gzipped": false, "": false,
	} {
		want, wantTag := plain, tag
		if compressed {
			want, wantTag = "compressed "+plain, "W/"+tag
		}
		if status, got, body := get("Accept-Encoding", accepts); status != 200 || body != want || got != wantTag {
			t.Errorf("%q: %d %s %.60s", accepts, status, got, body)
		}
		if status, _, body := get("Accept-Encoding", accepts, "If-None-Match", wantTag); status != 304 || body != "" {
			t.Errorf("%q, the same again: %d %.60s", accepts, status, body)
		}
	}
	h.Machine.Advance(6*time.Hour - time.Second)
	if status, _, _ := get("If-None-Match", tag); status != 304 {
		t.Errorf("%d before the deadline", status)
	}
	h.Machine.Advance(time.Second)
	if status, got, body := get("If-None-Match", tag); status != 200 || got == tag || !strings.Contains(body, `"slots":[]`) {
		t.Errorf("%d %s %s at the deadline", status, got, body)
	}
}

// A tray is written by hand, as encoding/json writes it.
func TestTheJSONOfATrayIsThatOfItsFields(t *testing.T) {
	seen := mayfly.ID{1, 2, 3}
	for _, tray := range []wire.Tray{
		{Slots: []wire.TraySlot{}},
		{Slots: []wire.TraySlot{}, Partial: true},
		{Slots: []wire.TraySlot{{User: nodetest.User("ana"), Newest: seen, Seen: &seen, EndsAt: 1_800_000_000_001}, {User: nodetest.User("ben"), Newest: seen}}, Partial: true},
	} {
		type fields wire.Tray // without its methods
		want, err := json.Marshal(fields(tray))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := tray.AppendJSON([]byte("head ")); err != nil || string(got) != "head "+string(want)+"\n" {
			t.Errorf("%v\n%s\n%s", err, got, want)
		}
	}
}
