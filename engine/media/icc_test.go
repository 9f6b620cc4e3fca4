package media_test

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"io"
	"strings"
	"testing"

	"github.com/mayflyhq/mayfly/engine/media"
)

// profileIn returns the colour profile of a cleaned picture.
func profileIn(t *testing.T, typ string, b []byte) []byte {
	t.Helper()
	switch typ {
	case media.JPEG:
		var whole []byte
		for rest := b; ; {
			at := bytes.Index(rest, []byte("ICC_PROFILE\x00"))
			if at < 0 {
				return whole
			}
			n := int(binary.BigEndian.Uint16(rest[at-2:])) - 2
			whole, rest = append(whole, rest[at+14:at+n]...), rest[at+n:]
		}
	case media.PNG:
		at := bytes.Index(b, []byte("iCCP"))
		r, err := zlib.NewReader(bytes.NewReader(b[at+4+5:]))
		must(t, err)
		whole, err := io.ReadAll(r)
		must(t, err)
		return whole
	default:
		at := bytes.Index(b, []byte("ICCP"))
		return b[at+8:][:binary.LittleEndian.Uint32(b[at+4:])]
	}
}

// profileTags returns the tags of a profile, and fails where it is not well-formed.
func profileTags(t *testing.T, b []byte) map[string]string {
	t.Helper()
	be := binary.BigEndian
	if int(be.Uint32(b)) != len(b) || string(b[36:40]) != "acsp" {
		t.Fatalf("not a profile of %d bytes: %x", len(b), b)
	}
	tags := map[string]string{}
	for n := range int(be.Uint32(b[128:])) {
		entry := b[132+12*n:]
		at, size := be.Uint32(entry[4:]), be.Uint32(entry[8:])
		if at%4 != 0 || at < uint32(132+12*be.Uint32(b[128:])) {
			t.Errorf("tag %q lies at %d", entry[:4], at)
		}
		tags[string(entry[:4])] = string(b[at:][:size])
	}
	return tags
}

// C4: a profile says how colours are meant, and nothing about whose they are.
func TestAColourProfileKeepsItsColoursAndNoIdentity(t *testing.T) {
	for _, version := range []uint32{0x02400000, 0x04200000} {
		dirty := profileOf(version)
		before := profileTags(t, []byte(dirty))
		plain := plainJPEG(t, 8, 8)
		for typ, file := range map[string][]byte{
			media.JPEG: jpegWith(plain, jpegSegment(0xe2, "ICC_PROFILE\x00\x01\x02"+dirty[:300]), jpegSegment(0xe2, "ICC_PROFILE\x00\x02\x02"+dirty[300:])),
			media.PNG:  pngWith(plainPNG(t, pixels(8, 8)), pngChunk("iCCP", "a\x00\x00"+zlibbed(t, dirty))),
			media.WebP: webpOf(vp8x(0x20, 8, 8), riffChunk("ICCP", dirty), riffChunk("VP8L", losslessWebP(8, 8))),
		} {
			out, _, err := clean(file, media.Limits{})
			must(t, err)
			got := profileIn(t, typ, out)
			if bytes.Contains(got, []byte(secret[:4])) {
				t.Errorf("%s: an identity is left: %q", typ, got)
			}
			tags := profileTags(t, got)
			for _, name := range []string{"wtpt", "rXYZ", "gXYZ", "rTRC", "gTRC", "bTRC"} {
				if tags[name] != before[name] {
					t.Errorf("%s: tag %s is %q", typ, name, tags[name])
				}
			}
			if tags["bXYZ"] != before["bXYZ"][:20] {
				t.Errorf("%s: tag bXYZ is %q", typ, tags["bXYZ"])
			}
			if tags["desc"] == "" || tags["cprt"] == "" || len(tags) != 9 {
				t.Errorf("%s: tags %q", typ, tags)
			}
			for from, to := range map[int]int{4: 8, 24: 36, 40: 64, 80: 128} { // program, date; platform to attributes; creator, id
				if len(bytes.Trim(got[from:to], "\x00")) != 0 {
					t.Errorf("%s: bytes %d to %d of the header are %x", typ, from, to, got[from:to])
				}
			}
			if string(got[8:24]) != dirty[8:24] || string(got[68:80]) != dirty[68:80] {
				t.Errorf("%s: another version, class or colour space: %x", typ, got[:128])
			}
		}
	}
}

// C4: tags may lie over each other, so that a small profile would become a large one.
func TestAColourProfileNeverGrows(t *testing.T) {
	dirty := []byte(profile())
	names := []string{"A2B0", "A2B1", "A2B2", "B2A0", "B2A1", "B2A2", "D2B0", "D2B1", "D2B2", "D2B3", "B2D0", "B2D1", "B2D2", "B2D3"}
	body := strings.Repeat("mft2\x00\x00\x00\x00", 4000)
	head := 128 + 4 + 12*len(names)
	file := append(bytes.Clone(dirty[:128]), make([]byte, head-128)...)
	file = append(file, body...)
	binary.BigEndian.PutUint32(file, uint32(len(file)))
	binary.BigEndian.PutUint32(file[128:], uint32(len(names)))
	for n, name := range names {
		entry := file[132+12*n:]
		copy(entry, name)
		binary.BigEndian.PutUint32(entry[4:], uint32(head+8*n))
		binary.BigEndian.PutUint32(entry[8:], uint32(len(body)-8*n))
	}
	out, _, err := clean(webpOf(vp8x(0x20, 8, 8), riffChunk("ICCP", string(file)), riffChunk("VP8L", losslessWebP(8, 8))), media.Limits{})
	must(t, err)
	if bytes.Contains(out, []byte("ICCP")) {
		t.Error("a profile whose tags lie over each other came out")
	}
}

// C4: what passes has the size that its format gives it, and passes once.
func TestASmallChunkCarriesNothingBehindItsData(t *testing.T) {
	png := plainPNG(t, pixels(8, 8))
	frame := "\x00\x00\x00\x00\x00\x00\x17\x00\x00\x0f\x00\x00\x64\x00\x00\x00" + riffChunk("ALPH", "\x00abc") + riffChunk("ALPH", secret) + riffChunk("VP8L", losslessWebP(24, 16))
	for name, file := range map[string][]byte{
		"PNG gamma":       pngWith(png, pngChunk("gAMA", "1234"+secret)),
		"PNG intent":      pngWith(png, pngChunk("sRGB", "\x00"+secret)),
		"PNG background":  pngWith(png, pngChunk("bKGD", "123456"+secret)),
		"PNG density":     pngWith(png, pngChunk("pHYs", "123456789"+secret)),
		"WebP animation":  webpOf(vp8x(0x02, 24, 16), riffChunk("ANIM", "\x00\x00\x00\x00\x00\x00"+secret), riffChunk("ANMF", frame)),
		"WebP two alphas": webpOf(vp8x(0x10, 8, 8), riffChunk("ALPH", "\x00abc"), riffChunk("ALPH", secret), riffChunk("VP8L", losslessWebP(8, 8))),
	} {
		out, _, err := clean(file, media.Limits{})
		if err != nil || bytes.Contains(out, []byte(secret[:8])) {
			t.Errorf("%s: %v: %q", name, err, out)
		}
	}
}
