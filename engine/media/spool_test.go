package media

import (
	"bytes"
	"testing"
)

// Small pieces wait in memory and large ones do not: each is read where it was written.
func TestASpoolReadsWhatWasWrittenInPiecesOfAnySize(t *testing.T) {
	text := make([]byte, 4*inMemory)
	for i := range text {
		text[i] = byte(i) ^ byte(i>>8) ^ byte(i>>16)
	}
	sizes := []int{8, 1000, gathered - 1, gathered, gathered + 1, piece, inMemory, inMemory + 1}
	for _, one := range sizes {
		for _, other := range sizes {
			s := spool{dir: t.TempDir()}
			got := make([]byte, len(text))
			wantAll := func() {
				t.Helper()
				if err := s.read(got[:s.size], 0); err != nil || !bytes.Equal(got[:s.size], text[:s.size]) {
					t.Fatalf("pieces of %d and %d bytes: of %d bytes others are read: %v", one, other, s.size, err)
				}
			}
			for at, next, read := 0, [2]int{one, other}, false; at < len(text); next[0], next[1] = next[1], next[0] {
				p := text[at:min(at+next[0], len(text))]
				if n, err := s.Write(p); n != len(p) || err != nil {
					t.Fatalf("%d of %d bytes: %v", n, len(p), err)
				}
				if at += len(p); s.size != int64(at) {
					t.Fatalf("%d bytes, not %d", s.size, at)
				}
				if !read && at > len(text)/2 {
					wantAll()
					read = true
				}
			}
			wantAll()
			if cap(s.mem) > gathered {
				t.Errorf("pieces of %d and %d bytes: %d bytes of memory are kept", one, other, cap(s.mem))
			}
			s.close()
		}
	}
}
