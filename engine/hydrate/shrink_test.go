package hydrate_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	"image/jpeg"
	"image/png"
	"io"
	"sync"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/hydrate"
	"github.com/mayflyhq/mayfly/store"
)

func pngOf(t testing.TB, width, height int) []byte {
	t.Helper()
	picture := image.NewGray(image.Rect(0, 0, width, height))
	for i := range picture.Pix {
		picture.Pix[i] = byte(i)
	}
	var b bytes.Buffer
	if err := png.Encode(&b, picture); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestAnImageThatIsSentIsMadeSmall(t *testing.T) {
	h, err := hydrate.New(store.Set{}, hydrate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ width, height, wantWidth, wantHeight int }{{1000, 500, 320, 160}, {30, 20, 30, 20}, {1, 900, 1, 320}} {
		var small bytes.Buffer
		typ, err := h.Shrink(t.Context(), &small, bytes.NewReader(pngOf(t, c.width, c.height)), 320)
		if err != nil || typ != "image/jpeg" {
			t.Fatal(c, typ, err)
		}
		got, err := jpeg.DecodeConfig(&small)
		if err != nil || got.Width != c.wantWidth || got.Height != c.wantHeight {
			t.Errorf("%+v: %+v, %v", c, got, err)
		}
	}
	whole := pngOf(t, 1000, 500)
	for name, c := range map[string]struct {
		sent []byte
		want mayfly.Kind
	}{
		"nothing": {nil, mayfly.Invalid}, "text": {[]byte("hello"), mayfly.Unsupported},
		"a video": {[]byte("\x00\x00\x00\x18ftypmp42\x00\x00\x00\x00mp42isom"), mayfly.Unsupported},
		"half":    {whole[:len(whole)/2], mayfly.Invalid},
		"large":   {append(bytes.Clone(whole), make([]byte, hydrate.MaxSent)...), mayfly.TooLarge},
		"pixels":  {pngHead(60_000, 60_000), mayfly.TooLarge},
	} {
		var small bytes.Buffer
		if _, err := h.Shrink(t.Context(), &small, bytes.NewReader(c.sent), 320); !errors.Is(err, c.want) || small.Len() > 0 {
			t.Errorf("%s: %v, %d bytes", name, err, small.Len())
		}
	}
	h.Close()
	if _, err := h.Shrink(t.Context(), io.Discard, bytes.NewReader(whole), 320); !errors.Is(err, mayfly.Unavailable) {
		t.Error(err)
	}
}

// pngHead is the beginning of a PNG of that size.
func pngHead(width, height uint32) []byte {
	b := []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR")
	for _, n := range []uint32{width, height} {
		b = append(b, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
	}
	b = append(b, 8, 2, 0, 0, 0)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[12:]))
}

// slow is an image that begins to arrive when the test lets it.
type slow struct {
	begun, goOn chan struct{}
	once        sync.Once
}

func (s *slow) Read([]byte) (int, error) {
	s.once.Do(func() { close(s.begun) })
	<-s.goOn
	return 0, io.EOF
}

// Images that arrive are in memory: there are 16 at most.
func TestOnlySoManyImagesArriveAtOnce(t *testing.T) {
	h, err := hydrate.New(store.Set{}, hydrate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	goOn := make(chan struct{})
	var all sync.WaitGroup
	for range 16 {
		s := &slow{begun: make(chan struct{}), goOn: goOn}
		all.Go(func() {
			if _, err := h.Shrink(t.Context(), io.Discard, s, 320); !errors.Is(err, mayfly.Invalid) { // it is empty
				t.Error(err)
			}
		})
		<-s.begun
	}
	image := pngOf(t, 10, 10)
	if _, err := h.Shrink(t.Context(), io.Discard, bytes.NewReader(image), 320); !errors.Is(err, mayfly.Unavailable) {
		t.Error(err)
	}
	close(goOn)
	all.Wait()
	if _, err := h.Shrink(t.Context(), io.Discard, bytes.NewReader(image), 320); err != nil {
		t.Error(err)
	}
}
