package media_test

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"image"
	"image/gif"
	"image/png"
	"io"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/bep/imagemeta"
	"golang.org/x/image/webp"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/media"
)

func zlibbed(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	_, err := io.WriteString(w, text)
	must(t, err)
	must(t, w.Close())
	return b.String()
}

func clean(b []byte, limits media.Limits) ([]byte, *media.Cleaned, error) {
	c, err := media.Clean(bytes.NewReader(b), limits)
	if err != nil {
		return nil, nil, err
	}
	out, err := io.ReadAll(c)
	return out, c, err
}

func TestWhatComesOutIsTheMediumAndNothingElse(t *testing.T) {
	for _, s := range samples(t) {
		t.Run(s.name, func(t *testing.T) {
			if !bytes.Contains(s.bytes, []byte(secret)) {
				t.Fatal("nothing to take out")
			}
			out, c, err := clean(s.bytes, media.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if c.Type() != s.typ {
				t.Errorf("type %s", c.Type())
			}
			if width, height := c.Dimensions(); width != s.width || height != s.height {
				t.Errorf("%d × %d", width, height)
			}
			for _, word := range []string{secret, secret[:8], "script", "PK\x03\x04", "Adobe XMP", "prVt"} {
				if bytes.Contains(out, []byte(word)) {
					t.Errorf("%q came out", word)
				}
			}
		})
	}
}

func TestWhatIsTakenOutIsNotAnnounced(t *testing.T) {
	for name, tc := range map[string]struct {
		bytes []byte
		holds func(out []byte) bool
	}{
		"the thumbnail of a JPEG": {dirtyJPEG(t, 1), func(out []byte) bool {
			return bytes.Contains(out, []byte("\xff\xe0\x00\x10JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00\xff"))
		}},
		"what Adobe adds":      {dirtyJPEG(t, 1), func(out []byte) bool { return bytes.Contains(out, []byte("\xff\xee\x00\x0eAdobe")) }},
		"EXIF and XMP in WebP": {dirtyWebP(), func(out []byte) bool { return out[20] == 0x20 }},
		"a chunk that is there twice": {dirtyPNG(t), func(out []byte) bool {
			return bytes.Count(out, []byte("gAMA")) == 1 && !bytes.Contains(out, []byte("gAMA"+secret[:4]))
		}},
		"an animation of a PNG": {dirtyPNG(t), func(out []byte) bool { return !bytes.Contains(out, []byte("acTL")) }},
		"the length of a video": {dirtyMP4(), func(out []byte) bool { return len(out) == len(dirtyMP4())-8-len(secret) }},
		"the length of a WebM":  {dirtyWebM(), func(out []byte) bool { return len(out) == len(dirtyWebM())-len(secret) }},
	} {
		out, _, err := clean(tc.bytes, media.Limits{})
		must(t, err)
		if !tc.holds(out) {
			t.Errorf("%s: %x", name, out)
		}
	}
}

func TestWhatIsCleanStaysAsItIs(t *testing.T) {
	for _, s := range samples(t) {
		once, _, err := clean(s.bytes, media.Limits{})
		must(t, err)
		twice, c, err := clean(once, media.Limits{})
		if err != nil || !bytes.Equal(once, twice) {
			t.Errorf("%s: cleaned again it is another: %d and %d bytes; %v", s.name, len(once), len(twice), err)
			continue
		}
		if width, height := c.Dimensions(); width != s.width || height != s.height {
			t.Errorf("%s: %d × %d", s.name, width, height)
		}
	}
}

func TestHowTheBytesArriveChangesNothing(t *testing.T) {
	for _, s := range samples(t) {
		want, _, err := clean(s.bytes, media.Limits{})
		must(t, err)
		c, err := media.Clean(iotest.OneByteReader(bytes.NewReader(s.bytes)), media.Limits{})
		must(t, err)
		got, err := io.ReadAll(iotest.OneByteReader(c))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: byte by byte it is another: %v", s.name, err)
		}
	}
}

func TestPixelsAreTheSameBeforeAndAfter(t *testing.T) {
	for _, s := range samples(t) {
		if strings.HasPrefix(s.typ, "video/") || s.name == "webp that moves" {
			continue
		}
		out, _, err := clean(s.bytes, media.Limits{})
		must(t, err)
		before, after := decoded(t, s.typ, s.bytes), decoded(t, s.typ, out)
		if !reflect.DeepEqual(before, after) {
			t.Errorf("%s: other pixels", s.name)
		}
	}
	out, _, err := clean(dirtyGIF(t), media.Limits{})
	must(t, err)
	before, err := gif.DecodeAll(bytes.NewReader(plainGIF(t)))
	must(t, err)
	after, err := gif.DecodeAll(bytes.NewReader(out))
	must(t, err)
	if !reflect.DeepEqual(before, after) {
		t.Error("the animation is another")
	}
}

func decoded(t *testing.T, typ string, b []byte) image.Image {
	t.Helper()
	var picture image.Image
	var err error
	if typ == media.WebP {
		picture, err = webp.Decode(bytes.NewReader(b))
	} else {
		picture, _, err = image.Decode(bytes.NewReader(b))
	}
	must(t, err)
	return picture
}

func TestAReaderOfMetadataFindsTheOrientationAndNothingElse(t *testing.T) {
	formats := map[string]imagemeta.ImageFormat{media.JPEG: imagemeta.JPEG, media.PNG: imagemeta.PNG, media.WebP: imagemeta.WebP}
	tags := func(typ string, b []byte) (found []string) {
		_, err := imagemeta.Decode(imagemeta.Options{
			R: bytes.NewReader(b), ImageFormat: formats[typ], Sources: imagemeta.EXIF | imagemeta.IPTC | imagemeta.XMP,
			HandleTag: func(tag imagemeta.TagInfo) error {
				found = append(found, fmt.Sprintf("%s %v", tag.Tag, tag.Value))
				return nil
			},
			Warnf: func(string, ...any) {},
		})
		if err != nil && len(found) == 0 {
			found = append(found, err.Error())
		}
		return found
	}
	looked := 0
	for _, s := range samples(t) {
		if _, known := formats[s.typ]; !known {
			continue
		}
		looked++
		if before := tags(s.typ, s.bytes); s.typ == media.JPEG && len(before) < 2 {
			t.Fatalf("%s: there was nothing to find: %v", s.name, before)
		}
		out, _, err := clean(s.bytes, media.Limits{})
		must(t, err)
		var want []string
		if s.name == "jpeg on its side" {
			want = []string{"Orientation 6"}
		}
		if got := tags(s.typ, out); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v", s.name, got)
		}
	}
	if looked != 5 {
		t.Errorf("%d looked at", looked)
	}
}

func TestAColourProfileStaysIfItIsWellFormed(t *testing.T) {
	plain := plainJPEG(t, 8, 8)
	whole := profile()
	for name, tc := range map[string]struct {
		segments []string
		stays    bool
	}{
		"one part":          {[]string{"\x01\x01" + whole}, true},
		"two parts":         {[]string{"\x01\x02" + whole[:50], "\x02\x02" + whole[50:]}, true},
		"a part is missing": {[]string{"\x01\x02" + whole[:50]}, false},
		"in disorder":       {[]string{"\x02\x02" + whole[50:], "\x01\x02" + whole[:50]}, false},
		"counts that lie":   {[]string{"\x01\x02" + whole[:50], "\x02\x03" + whole[50:]}, false},
		"no part":           {[]string{"\x00\x00" + whole}, false},
		"too long":          {[]string{"\x01\x01" + whole + "x"}, false},
		"not a profile":     {[]string{"\x01\x01" + strings.Repeat("x", 200)}, false},
	} {
		var segments [][]byte
		for _, s := range tc.segments {
			segments = append(segments, jpegSegment(0xe2, "ICC_PROFILE\x00"+s))
		}
		out, _, err := clean(jpegWith(plain, segments...), media.Limits{})
		must(t, err)
		if bytes.Contains(out, []byte("ICC_PROFILE")) != tc.stays {
			t.Errorf("%s: want it there: %t", name, tc.stays)
		}
	}
	out, _, err := clean(dirtyPNG(t), media.Limits{})
	must(t, err)
	if bytes.Count(out, []byte("iCCP")) != 1 {
		t.Error("the profile of the PNG is not there once")
	}
}

func TestEveryOrientationIsKept(t *testing.T) {
	for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		for turned := range uint16(10) {
			out, c, err := clean(jpegWith(plainJPEG(t, 16, 8), jpegSegment(0xe1, exif(order, turned))), media.Limits{})
			must(t, err)
			if kept := bytes.Contains(out, []byte("Exif")); kept != (turned >= 2 && turned <= 8) {
				t.Errorf("orientation %d: kept %t", turned, kept)
			}
			width, _ := c.Dimensions()
			if lies := turned >= 5 && turned <= 8; lies != (width == 8) {
				t.Errorf("orientation %d: width %d", turned, width)
			}
		}
	}
}

func TestWhatIsCutOffAnywhereIsInvalid(t *testing.T) {
	for _, s := range samples(t) {
		whole := len(s.bytes) - s.behind
		for n := range whole {
			if s.name == "webm as it was recorded" && n > 300 {
				break // it may end anywhere between its blocks
			}
			_, _, err := clean(s.bytes[:n], media.Limits{})
			if !errors.Is(err, mayfly.Invalid) && (n >= 16 || !errors.Is(err, mayfly.Unsupported)) {
				if s.typ == media.MP4 && err == nil && n > bytes.Index(s.bytes, []byte("the s")) && n > bytes.Index(s.bytes, []byte("moov")) {
					continue // between boxes, and what follows is nothing that was needed, or another fragment
				}
				t.Fatalf("%s: the first %d of %d bytes: %v", s.name, n, whole, err)
			}
		}
	}
}

func TestErrorsOfTheReaderArriveAsTheyAre(t *testing.T) {
	mine := errors.New("mine")
	for _, s := range samples(t) {
		for n := 0; n < len(s.bytes)-s.behind-1; n += 7 {
			c, err := media.Clean(io.MultiReader(bytes.NewReader(s.bytes[:n]), iotest.ErrReader(mine)), media.Limits{})
			if err == nil {
				_, err = io.ReadAll(c)
			}
			if !errors.Is(err, mine) {
				t.Fatalf("%s: after %d bytes: %v", s.name, n, err)
			}
		}
	}
}

func TestWhatIsNotTakenIsRefusedWithAHint(t *testing.T) {
	for name, tc := range map[string]struct {
		bytes string
		kind  mayfly.Kind
		hint  string
	}{
		"nothing":    {"", mayfly.Invalid, "bytes"},
		"HEIC":       {"\x00\x00\x00\x18ftypheic\x00\x00\x00\x00mif1heic", mayfly.Unsupported, "JPEG"},
		"AVIF":       {"\x00\x00\x00\x1cftypavif\x00\x00\x00\x00avifmif1miaf", mayfly.Unsupported, "JPEG"},
		"SVG":        {"<svg xmlns='http://www.w3.org/2000/svg'><script/></svg>", mayfly.Unsupported, "image/png"},
		"HTML":       {"<!DOCTYPE html><script>alert(1)</script>", mayfly.Unsupported, "image/png"},
		"PDF":        {"%PDF-1.7\n", mayfly.Unsupported, "image/png"},
		"ZIP":        {"PK\x03\x04", mayfly.Unsupported, "image/png"},
		"text":       {"GIF 89a", mayfly.Unsupported, "image/png"},
		"BMP":        {"BM\x00\x00\x00\x00\x00\x00\x00\x00", mayfly.Unsupported, "image/png"},
		"TIFF":       {"II*\x00\x08\x00\x00\x00", mayfly.Unsupported, "image/png"},
		"zeros":      {string(make([]byte, 4096)), mayfly.Unsupported, "image/png"},
		"Matroska":   {"\x1a\x45\xdf\xa3\x8b\x42\x82\x88matroska", mayfly.Unsupported, "image/png"},
		"in front":   {" " + string(plainJPEG(t, 8, 8)), mayfly.Unsupported, "image/png"},
		"one byte":   {"\xff", mayfly.Unsupported, "image/png"},
		"RIFF audio": {"RIFF\x24\x00\x00\x00WAVEfmt ", mayfly.Unsupported, "image/png"},
	} {
		_, _, err := clean([]byte(tc.bytes), media.Limits{})
		var e *mayfly.Error
		if !errors.Is(err, tc.kind) || !errors.As(err, &e) || !strings.Contains(e.Hint, tc.hint) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLiesAreFoundBeforeTheyCost(t *testing.T) {
	plain := plainPNG(t, pixels(8, 8))
	huge := append([]byte{}, plain...)
	binary.BigEndian.PutUint32(huge[16:], 1_000_000)
	binary.BigEndian.PutUint32(huge[20:], 1_000_000)
	binary.BigEndian.PutUint32(huge[29:], 0)
	copy(huge[8:], pngChunk("IHDR", string(huge[16:29])))
	video := func(parts ...string) []byte { return []byte(ftyp("mp42") + strings.Join(parts, "")) }
	whole := box("moov", mvhd(), trak("vide", tkhd(1, 64, 64, false)))
	for name, tc := range map[string]struct {
		bytes []byte
		kind  mayfly.Kind
	}{
		"a PNG of 10¹² pixels":              {huge, mayfly.TooLarge},
		"a PNG chunk of 4 GiB":              {pngWith(plain, []byte("\xff\xff\xff\xfftEXt")), mayfly.Invalid},
		"a PNG chunk of 1 GiB":              {pngWith(plain, []byte("\x40\x00\x00\x00tEXt")), mayfly.TooLarge},
		"a PNG with a bad checksum":         {append(plain[:len(plain)-20:len(plain)-20], make([]byte, 20)...), mayfly.Invalid},
		"a PNG with an unknown need":        {pngWith(plain, pngChunk("QQQQ", "")), mayfly.Invalid},
		"a PNG with two pictures":           {bytes.Replace(plain, pngChunk("IEND", ""), append(pngChunk("gAMA", "1234"), append(pngChunk("IDAT", ""), pngChunk("IEND", "")...)...), 1), mayfly.Invalid},
		"a PNG without a picture":           {append(plain[:33:33], pngChunk("IEND", "")...), mayfly.Invalid},
		"a JPEG segment of no length":       {jpegWith(plainJPEG(t, 8, 8), []byte("\xff\xe1\x00\x00")), mayfly.Invalid},
		"a JPEG of a rare sort":             {jpegWith(plainJPEG(t, 8, 8), jpegSegment(0xc3, "\x08\x00\x08\x00\x08\x01\x01\x11\x00")), mayfly.Unsupported},
		"a JPEG of no height":               {jpegWith(plainJPEG(t, 8, 8), jpegSegment(0xc0, "\x08\x00\x00\x00\x08\x01\x01\x11\x00")), mayfly.Invalid},
		"a JPEG of 65535²":                  {jpegWith(plainJPEG(t, 8, 8), jpegSegment(0xc0, "\x08\xff\xff\xff\xff\x01\x01\x11\x00")), mayfly.TooLarge},
		"a JPEG with two frames":            {jpegWith(plainJPEG(t, 8, 8), jpegSegment(0xc0, "\x08\x00\x08\x00\x08\x01\x01\x11\x00")), mayfly.Invalid},
		"a JPEG that ends at once":          {[]byte("\xff\xd8\xff\xd9"), mayfly.Invalid},
		"a GIF of 65535²":                   {[]byte("GIF89a\xff\xff\xff\xff\x00\x00\x00;"), mayfly.TooLarge},
		"a GIF of nothing":                  {[]byte("GIF89a\x01\x00\x01\x00\x00\x00\x00;"), mayfly.Invalid},
		"a GIF frame outside":               {[]byte("GIF89a\x01\x00\x01\x00\x00\x00\x00\x2c\x01\x00\x00\x00\x01\x00\x01\x00\x00\x02\x00;"), mayfly.Invalid},
		"a WebP of 16383²":                  {webpOf(riffChunk("VP8L", losslessWebP(16383, 16383))), mayfly.TooLarge},
		"a WebP larger inside":              {webpOf(vp8x(0, 8, 8), riffChunk("VP8L", losslessWebP(16383, 16383))), mayfly.Invalid},
		"a WebP of 4 GiB":                   {[]byte("RIFF\xfe\xff\xff\xffWEBPVP8L"), mayfly.TooLarge},
		"a WebP chunk larger than it":       {[]byte("RIFF\x10\x00\x00\x00WEBPVP8L\xff\x00\x00\x00\x00\x00\x00\x00"), mayfly.Invalid},
		"a WebP without a picture":          {webpOf(vp8x(0, 8, 8), riffChunk("XMP ", secret)), mayfly.Invalid},
		"an MP4 box smaller than itself":    {video("\x00\x00\x00\x07moov"), mayfly.Invalid},
		"an MP4 box without an end":         {video("\x00\x00\x00\x00mdat"), mayfly.Unsupported},
		"an MP4 box of 2⁶³":                 {video("\x00\x00\x00\x01mdat\xff\xff\xff\xff\xff\xff\xff\xff"), mayfly.Invalid},
		"an MP4 box of 2⁶²":                 {video("\x00\x00\x00\x01mdat\x3f\xff\xff\xff\xff\xff\xff\xff"), mayfly.TooLarge},
		"an MP4 box larger than its own":    {video(box("moov", "\x00\x00\x01\x00trak")), mayfly.Invalid},
		"an MP4 that is strange":            {video(box("abcd", "")), mayfly.Invalid},
		"an MP4 without a video":            {video(box("moov", mvhd()), box("mdat", "x")), mayfly.Invalid},
		"an MP4 of 65535²":                  {video(box("moov", mvhd(), trak("vide", tkhd(1, 65535, 65535, false))), box("mdat", "x")), mayfly.TooLarge},
		"an MP4 whose data are elsewhere":   {bytes.Replace(video(whole, box("mdat", "x")), []byte("url \x00\x00\x00\x01"), []byte("url \x00\x00\x00\x00"), 1), mayfly.Unsupported},
		"an MP4 in an MP4 in an MP4":        {video(strings.Repeat("\x00\x01\x00\x00moov", 1000)), mayfly.Invalid},
		"a WebM element of 2⁵⁵ bytes":       {[]byte(webmHead + "\x18\x53\x80\x67\x01\x7f\xff\xff\xff\xff\xff\xff"), mayfly.TooLarge},
		"a WebM of another type":            {[]byte("\x1a\x45\xdf\xa3\x87\x42\x82\x84wexm"), mayfly.Unsupported},
		"a WebM with subtitles":             {[]byte(webmHead + element(0x18538067, webmTracks("\x11", 8, 8)+cluster())), mayfly.Unsupported},
		"a WebM without a header":           {[]byte("\x1a\x45\xdf\xa3\x80" + element(0x18538067, cluster())), mayfly.Invalid},
		"a WebM element larger than it":     {[]byte(webmHead + element(0x18538067, "\x15\x49\xa9\x66\xa0")), mayfly.Invalid},
		"a WebM track of unknown size":      {[]byte(webmHead + element(0x18538067, "\x16\x54\xae\x6b\xff")), mayfly.Invalid},
		"a WebM id of many bytes":           {[]byte(webmHead + "\x00\x00\x00"), mayfly.Invalid},
		"a WebM without pictures":           {[]byte(webmHead + element(0x18538067, webmTracks("\x02", 0, 0)+cluster())), mayfly.Invalid},
		"a WebM segment in itself for ever": {[]byte(webmHead + strings.Repeat("\x18\x53\x80\x67\xff", 1000)), mayfly.Invalid},
	} {
		_, _, err := clean(tc.bytes, media.Limits{})
		var e *mayfly.Error
		if !errors.Is(err, tc.kind) || !errors.As(err, &e) || e.Hint == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEveryMediumStopsAtItsLimit(t *testing.T) {
	for _, s := range samples(t) {
		most := int64(len(s.bytes) - s.behind)
		for limit, want := range map[int64]error{most - 30: mayfly.TooLarge, most + 12: nil} { // where it ends unannounced it has to look at what follows
			_, _, err := clean(s.bytes, media.Limits{Image: limit, Video: limit})
			if !errors.Is(err, want) {
				t.Errorf("%s: %d bytes, limit %d: %v", s.name, most, limit, err)
			}
		}
		_, _, err := clean(s.bytes, media.Limits{Pixels: int64(s.width)*int64(s.height) - 1})
		if !errors.Is(err, mayfly.TooLarge) {
			t.Errorf("%s: too many pixels: %v", s.name, err)
		}
	}
}

// endless is a medium that goes on and on, and says now and then how much memory
// its reader takes.
type endless struct {
	head    io.Reader
	left    int
	every   int
	most    uint64
	started uint64
}

func (e *endless) Read(p []byte) (int, error) {
	if n, err := e.head.Read(p); err == nil {
		return n, nil
	}
	if e.left <= 0 {
		return 0, io.EOF
	}
	n := min(len(p), e.left)
	for i := range p[:n] {
		p[i] = 0x55
	}
	before := e.left / e.every
	if e.left -= n; e.left/e.every != before {
		e.most = max(e.most, heap())
	}
	return n, nil
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestMemoryIsBoundedHoweverLongTheMedium(t *testing.T) {
	const length = 40 << 20
	size := func(n int) string { return string(binary.BigEndian.AppendUint32(nil, uint32(n))) }
	png := plainPNG(t, pixels(8, 8))
	jpg := plainJPEG(t, 8, 8)
	for name, head := range map[string]string{
		"a JPEG's coded data":   string(jpg[:len(jpg)-2]),
		"a PNG's picture":       string(png[:33]) + size(length) + "IDAT",
		"a PNG's text":          string(png[:33]) + size(length) + "tEXt",
		"a GIF's blocks":        "GIF89a\x01\x00\x01\x00\x00\x00\x00\x2c\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02",
		"a GIF's comment":       "GIF89a\x01\x00\x01\x00\x00\x00\x00\x21\xfe",
		"a WebP's chunk of XMP": "RIFF\x00\x00\x80\x02WEBP" + vp8x(4, 8, 8) + "XMP \x00\x00\x70\x02",
		"an MP4's samples":      ftyp("isom") + size(length) + "mdat",
		"an MP4's names":        ftyp("isom") + size(length) + "udta",
		"a WebM's tags":         webmHead + "\x18\x53\x80\x67\x01\xff\xff\xff\xff\xff\xff\xff\x12\x54\xc3\x67\x12\x80\x00\x00",
	} {
		e := &endless{head: strings.NewReader(head), left: length, every: length / 4, started: heap()}
		c, err := media.Clean(e, media.Limits{Image: 64 << 20})
		must(t, err)
		n, err := io.Copy(io.Discard, c)
		if e.left > length/2 || e.most == 0 {
			t.Errorf("%s: it stopped after %d bytes out: %v", name, n, err)
		}
		if e.most > e.started+2<<20 {
			t.Errorf("%s: %d bytes of memory", name, e.most-e.started)
		}
	}
}

func FuzzClean(f *testing.F) {
	for _, s := range samples(f) {
		f.Add(s.bytes)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		limits := media.Limits{Image: 1 << 20, Video: 1 << 20, Pixels: 1 << 20}
		once, _, err := clean(b, limits)
		if err != nil {
			return
		}
		twice, _, err := clean(once, limits)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("cleaned again it is another: %v", err)
		}
	})
}

func TestLimitsBelowNothingAreRefused(t *testing.T) {
	for _, l := range []media.Limits{{Image: -1}, {Video: -1}, {Pixels: -1}} {
		if _, _, err := clean(plainGIF(t), l); !errors.Is(err, mayfly.Invalid) {
			t.Errorf("%+v: %v", l, err)
		}
	}
	if len(media.Types()) != 6 {
		t.Error(media.Types())
	}
}

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
	profile := profile()
	body := chunk("VP8X", "\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00")
	for _, c := range []struct {
		name     string
		profiles []string
		kept     int
	}{
		{"a real one", []string{profile}, 1},
		{"two", []string{profile, profile}, 1},
		{"a place", []string{"48.137 11.575 acsp"}, 0},
		{"a place and a real one", []string{"48.137 11.575", profile}, 0},
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
