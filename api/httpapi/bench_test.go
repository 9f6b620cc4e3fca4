package httpapi_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// BenchmarkOpenStory reads a live story through the whole handler, without the
// network: token, gate, signed URLs, JSON.
func BenchmarkOpenStory(b *testing.B) {
	h := newTestNode(b)
	h.Follow("ana", "ben")
	s := h.Publish("ana", `{"audience":"followers","caption":"sea"}`)
	h.Token("ben")
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		r := httptest.NewRequest("GET", "/v1/stories/"+s.ID.String(), http.NoBody)
		r.Header.Set("Authorization", "Bearer "+h.Token("ben"))
		for pb.Next() {
			w := &discard{header: http.Header{}}
			h.Handlers.Public().ServeHTTP(w, r)
			if w.status != http.StatusOK {
				b.Errorf("%d", w.status)
				return
			}
		}
	})
}

type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(status int)      { d.status = status }
func (d *discard) Write(p []byte) (int, error) { return io.Discard.Write(p) }
