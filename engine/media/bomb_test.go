package media_test

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	"image/png"
	"io"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/media"
)

// manyScans is a progressive JPEG whose scans say nothing, in a few bytes each.
func manyScans(width, height, scans int) []byte {
	var b bytes.Buffer
	segment := func(marker byte, data ...byte) {
		b.Write([]byte{0xff, marker, byte((len(data) + 2) >> 8), byte(len(data) + 2)})
		b.Write(data)
	}
	b.Write([]byte{0xff, 0xd8})
	segment(0xdb, append([]byte{0}, bytes.Repeat([]byte{1}, 64)...)...)
	segment(0xc2, 8, byte(height>>8), byte(height), byte(width>>8), byte(width), 1, 1, 0x11, 0)
	for _, table := range []byte{0x00, 0x10} {
		segment(0xc4, append([]byte{table, 1}, make([]byte, 16)...)...)
	}
	segment(0xda, 1, 1, 0, 0, 0, 0)
	b.Write(make([]byte, (width*height/64+7)/8))
	for range scans - 1 {
		segment(0xda, 1, 1, 0, 1, 63, 0)
		b.Write(make([]byte, 8))
	}
	b.Write([]byte{0xff, 0xd9})
	return b.Bytes()
}

// C4, I17: a scan costs a few bytes to send and the whole picture to decode.
func TestAPictureOfTooManyScansIsRefused(t *testing.T) {
	for _, c := range []struct {
		width, height, scans int
		taken                bool
	}{
		{4000, 3000, 12, true},   // a photo of a phone, as it is saved for the web
		{7000, 7000, 10, true},   // the largest
		{7000, 7000, 20, false},  //
		{4000, 4000, 400, false}, // 44 KB, which took 17 s to decode
		{64, 64, 100, true},
		{64, 64, 101, false},
	} {
		clean, err := media.Clean(bytes.NewReader(manyScans(c.width, c.height, c.scans)), media.Limits{})
		if err == nil {
			_, err = io.Copy(io.Discard, clean)
		}
		if c.taken && err != nil || !c.taken && !errors.Is(err, mayfly.TooLarge) {
			t.Errorf("%d × %d in %d scans: %v", c.width, c.height, c.scans, err)
		}
	}
}

// C4, I17: a profile costs two thousand times as much to unpack as to send.
func TestOneColourProfileOfAPNGIsUnpacked(t *testing.T) {
	var p, packed bytes.Buffer
	must(t, png.Encode(&p, image.NewGray(image.Rect(0, 0, 8, 8))))
	w := zlib.NewWriter(&packed)
	_, err := w.Write(make([]byte, 2<<20))
	must(t, errors.Join(err, w.Close()))
	data := append([]byte("a\x00\x00"), packed.Bytes()...)
	chunk := append(binary.BigEndian.AppendUint32(nil, uint32(len(data))), "iCCP"...)
	chunk = append(chunk, data...)
	chunk = binary.BigEndian.AppendUint32(chunk, crc32.ChecksumIEEE(chunk[4:]))
	allocated := func(profiles int) float64 {
		file := bytes.Join([][]byte{p.Bytes()[:33], bytes.Repeat(chunk, profiles), p.Bytes()[33:]}, nil)
		result := testing.Benchmark(func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				clean, err := media.Clean(bytes.NewReader(file), media.Limits{})
				if err == nil {
					_, err = io.Copy(io.Discard, clean)
				}
				if err != nil {
					b.Fatal(err)
				}
				if b.N > 1 {
					break
				}
			}
		})
		return float64(result.MemBytes) / float64(result.N)
	}
	if one, many := allocated(1), allocated(50); many > 3*one {
		t.Errorf("fifty profiles take %.0f bytes, one takes %.0f", many, one)
	}
}

// C4: whatever calls itself a profile and is none may say where it was taken.
func TestAColourProfileOfAWebPPassesOnceAndOnlyIfItIsOne(t *testing.T) {
	chunk := func(name, data string) string {
		return name + string(binary.LittleEndian.AppendUint32(nil, uint32(len(data)))) + data + "\x00"[:len(data)%2]
	}
	profile := make([]byte, 132)
	binary.BigEndian.PutUint32(profile, uint32(len(profile)))
	copy(profile[36:], "acsp")
	body := chunk("VP8X", "\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00")
	for _, c := range []struct {
		name     string
		profiles []string
		kept     int
	}{
		{"a real one", []string{string(profile)}, 1},
		{"two", []string{string(profile), string(profile)}, 1},
		{"a place", []string{"48.137 11.575 acsp"}, 0},
		{"a place and a real one", []string{"48.137 11.575", string(profile)}, 0},
	} {
		inside := body
		for _, p := range c.profiles {
			inside += chunk("ICCP", p)
		}
		inside += chunk("VP8L", "\x2f\x00\x00\x00\x00\x88\x88\x08")
		file := "RIFF" + string(binary.LittleEndian.AppendUint32(nil, uint32(4+len(inside)))) + "WEBP" + inside
		clean, err := media.Clean(bytes.NewReader([]byte(file)), media.Limits{})
		must(t, err)
		out, err := io.ReadAll(clean)
		must(t, err)
		if got := bytes.Count(out, []byte("ICCP")); got != c.kept || bytes.Contains(out, []byte("48.137")) || len(out) != len(file) {
			t.Errorf("%s: %d profiles, %d of %d bytes: %q", c.name, got, len(out), len(file), out)
		}
	}
}
