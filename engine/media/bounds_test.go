package media_test

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/media"
)

// repeated reads a head, then a part again and again, up to a length.
type repeated struct {
	head string
	part string
	read int
	most int
}

func (r *repeated) Read(p []byte) (n int, err error) {
	if r.read >= r.most {
		return 0, io.EOF
	}
	p = p[:min(len(p), r.most-r.read)]
	for n < len(p) {
		from := r.head
		at := r.read
		if at >= len(r.head) {
			from, at = r.part, (at-len(r.head))%len(r.part)
		}
		k := copy(p[n:], from[at:])
		n, r.read = n+k, r.read+k
	}
	return n, nil
}

// filled is a whole video with as many parts before its index as are allowed almost, and
// one part again and again in it.
func filled(part string) string {
	return ftyp("isom") + strings.Repeat(box("free"), 400_000) + box("moov", mvhd(), strings.Repeat(part, max(1, 3_000_000/len(part)))) + box("mdat")
}

func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var use syscall.Rusage
	must(t, syscall.Getrusage(syscall.RUSAGE_SELF, &use))
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// I17: an element costs two bytes to send, and a look at it costs much more. The bound is
// one of elements, and no sort of them costs much more to look at than the others.
func TestAMediumOfTooManyElementsIsRefused(t *testing.T) {
	const (
		length   = 62<<20 + 512<<10
		limit    = 64 << 20
		elements = limit / 128
	)
	open := "\x01\xff\xff\xff\xff\xff\xff\xff"
	webm := webmHead + "\x18\x53\x80\x67" + open
	png := string(plainPNG(t, pixels(8, 8))[:33])
	jpg := string(plainJPEG(t, 8, 8)[:2])
	gif := "GIF89a\x01\x00\x01\x00\x00\x00\x00"
	took := map[string]time.Duration{}
	for name, r := range map[string]*repeated{
		"WebM voids":       {head: webm, part: "\xec\x80"},
		"WebM tracks":      {head: webm, part: element(0x1654ae6b, "")},
		"WebM clusters":    {head: webm, part: element(0x1f43b675, "")},
		"WebM blocks":      {head: webm + webmParts() + "\x1f\x43\xb6\x75" + open, part: "\xa3\x80"},
		"MP4 free boxes":   {head: ftyp("isom"), part: box("free")},
		"MP4 media":        {head: ftyp("isom"), part: box("mdat")},
		"MP4 fragments":    {head: ftyp("isom"), part: box("moof")},
		"MP4 in its index": {head: filled(box("trak"))},
		"MP4 in a track":   {head: filled(box("trak", box("mdia"), box("mdia")))},
		"MP4 in a table":   {head: filled(trak("vide", tkhd(1, 8, 8, false), make([]chunk, 200_000)...))},
		"PNG chunks":       {head: png, part: string(pngChunk("tEXt", ""))},
		"PNG data":         {head: png, part: string(pngChunk("IDAT", ""))},
		"JPEG segments":    {head: jpg, part: "\xff\xfe\x00\x02"},
		"JPEG tables":      {head: jpg, part: "\xff\xdb\x00\x02"},
		"GIF comments":     {head: gif, part: "\x21\xfe\x00"},
		"GIF blocks":       {head: gif + "\x21\xfe", part: "\x01a"},
		"GIF frames":       {head: gif, part: "\x2c\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x00"},
		"WebP chunks":      {head: "RIFF\x00\x00\xe0\x03WEBP" + vp8x(0, 8, 8), part: riffChunk("ABCD", "")},
	} {
		if r.most = length; r.part == "" {
			r.most = len(r.head)
		}
		before := cpuTime(t)
		c, err := media.Clean(r, media.Limits{Image: limit, Video: limit})
		if err == nil {
			_, err = io.Copy(io.Discard, c)
		}
		took[name] = cpuTime(t) - before
		var e *mayfly.Error
		if !errors.Is(err, mayfly.TooLarge) || !errors.As(err, &e) || e.Hint == "" || !strings.Contains(err.Error(), "parts") {
			t.Errorf("%s: %v", name, err)
		}
		if most := len(r.head) + (elements+1)*len(r.part) + 64<<10; r.read > most { // some are read ahead
			t.Errorf("%s: refused after %d bytes, not %d", name, r.read, most)
		}
		t.Logf("%s: refused after %d bytes and %v of processor time", name, r.read, took[name].Round(time.Millisecond))
	}
	median := slices.Sorted(maps.Values(took))[len(took)/2]
	for name, took := range took {
		if took > 10*median { // a fast machine takes 0.2 s for each, and without a bound 7 s
			t.Errorf("%s: it took %v of processor time to refuse it, and half of the others at most %v", name, took, median)
		}
	}
}

// The bound is far above what programs write: half a million blocks are two hours of video.
func TestALongVideoIsBelowTheBoundOfElements(t *testing.T) {
	block := element(0xa3, "\x81\x00\x00\x80"+strings.Repeat("x", 92))
	file := webmHead + "\x18\x53\x80\x67\x01\xff\xff\xff\xff\xff\xff\xff" + webmParts() + "\x1f\x43\xb6\x75\x01\xff\xff\xff\xff\xff\xff\xff" + strings.Repeat(block, 400_000)
	c, err := media.Clean(strings.NewReader(file), media.Limits{})
	must(t, err)
	n, err := io.Copy(io.Discard, c)
	if err != nil || n != int64(len(file)) {
		t.Errorf("%d of %d bytes: %v", n, len(file), err)
	}
	var gif bytes.Buffer
	gif.WriteString("GIF89a\x01\x00\x01\x00\x00\x00\x00\x2c\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02")
	for range 70_000 {
		gif.WriteString("\xff" + strings.Repeat("x", 255))
	}
	gif.WriteString("\x00;")
	if _, _, err := clean(gif.Bytes(), media.Limits{}); err != nil {
		t.Error(err)
	}
}
