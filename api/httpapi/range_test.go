package httpapi

import (
	"net/http"
	"testing"
)

// FuzzRange shows that a range lies inside the medium, whatever a client sends.
func FuzzRange(f *testing.F) {
	for _, text := range []string{"bytes=0-", "bytes=-1", "bytes=5-2", "bytes=0-0,2-3", "bytes=9999999999999999999-", "bytes=1-9223372036854775807", "bytes=--1", "bytes= 1-2 ", "items=0-1", ""} {
		f.Add(text, "", int64(10))
		f.Add(text, `"tag"`, int64(0))
	}
	f.Fuzz(func(t *testing.T, text, condition string, size int64) {
		size = max(size, 0)
		h := http.Header{"Range": {text}, "If-Range": {condition}}
		part, whole, err := rangeOf(h, `"tag"`, size)
		if err == nil && whole && part != (byteRange{0, size - 1}) {
			t.Fatalf("%q of %d: the whole is %+v", text, size, part)
		}
		if err == nil && !whole && (part.first < 0 || part.last < part.first || part.last >= size) {
			t.Fatalf("%q of %d: %+v", text, size, part)
		}
	})
}
