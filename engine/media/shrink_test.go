package media_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"image"
	"image/color"
	"image/gif"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/media"
)

// quarters has another colour in every corner.
func quarters(width, height int) *image.NRGBA {
	picture := image.NewNRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			c := color.NRGBA{0, 0, 0, 255} // black, red, green, white, in reading order
			if x >= width/2 {
				c.R = 255
			}
			if y >= height/2 {
				c.G = 255
			}
			if x >= width/2 && y >= height/2 {
				c.B = 255
			}
			picture.Set(x, y, c)
		}
	}
	return picture
}

func corners(picture image.Image) (names string) {
	size := picture.Bounds()
	for _, at := range [][2]int{{1, 1}, {3, 1}, {1, 3}, {3, 3}} {
		r, g, b, _ := picture.At(size.Min.X+size.Dx()*at[0]/4, size.Min.Y+size.Dy()*at[1]/4).RGBA()
		name := byte('k')
		switch {
		case r > 1<<15 && g > 1<<15 && b > 1<<15:
			name = 'w'
		case r > 1<<15:
			name = 'r'
		case g > 1<<15:
			name = 'g'
		}
		names += string(name)
	}
	return names
}

func shrink(t *testing.T, b []byte, typ string, longest int) (image.Image, string) {
	t.Helper()
	var out bytes.Buffer
	width, height, outType, err := media.Shrink(&out, bytes.NewReader(b), typ, longest, media.Limits{})
	must(t, err)
	small := decoded(t, outType, out.Bytes())
	if size := small.Bounds(); size.Dx() != int(width) || size.Dy() != int(height) {
		t.Fatalf("%d × %d was said of %v", width, height, size)
	}
	_, c, err := clean(out.Bytes(), media.Limits{})
	must(t, err)
	if c.Type() != outType {
		t.Fatalf("%s was said of %s", outType, c.Type())
	}
	return small, outType
}

func TestASmallPictureHasItsLongestSideAndItsShape(t *testing.T) {
	for _, tc := range []struct{ width, height, longest, wantWidth, wantHeight int }{
		{1600, 1200, 320, 320, 240},
		{1200, 1600, 320, 240, 320},
		{1600, 1200, 1080, 1080, 810},
		{641, 13, 320, 320, 6},
		{1000, 1, 320, 320, 1},
		{320, 200, 320, 320, 200},
		{10, 5, 320, 10, 5},
		{321, 321, 320, 320, 320},
	} {
		small, typ := shrink(t, plainPNG(t, quarters(tc.width, tc.height)), media.PNG, tc.longest)
		if size := small.Bounds(); size.Dx() != tc.wantWidth || size.Dy() != tc.wantHeight || typ != media.JPEG {
			t.Errorf("%d × %d: %v, %s", tc.width, tc.height, size, typ)
		}
		if tc.height > 1 && corners(small) != "krgw" {
			t.Errorf("%d × %d: %s", tc.width, tc.height, corners(small))
		}
	}
}

func TestEveryOrientationStandsUprightWhenItIsSmall(t *testing.T) {
	var b bytes.Buffer
	must(t, encodeJPEG(&b, quarters(400, 200)))
	for turned, want := range []string{1: "krgw", 2: "rkwg", 3: "wgrk", 4: "gwkr", 5: "kgrw", 6: "gkwr", 7: "wrgk", 8: "rwkg"} {
		if turned == 0 {
			continue
		}
		dirty := jpegWith(b.Bytes(), jpegSegment(0xe1, exif(binary.BigEndian, uint16(turned))))
		cleaned, c, err := clean(dirty, media.Limits{})
		must(t, err)
		for name, bytes := range map[string][]byte{"as it came": dirty, "cleaned": cleaned} {
			small, _ := shrink(t, bytes, media.JPEG, 100)
			if got := corners(small); got != want {
				t.Errorf("orientation %d, %s: %s, want %s", turned, name, got, want)
			}
			width, height := c.Dimensions()
			if size := small.Bounds(); (width > height) != (size.Dx() > size.Dy()) {
				t.Errorf("orientation %d, %s: %v of %d × %d", turned, name, size, width, height)
			}
		}
	}
}

func TestWhatOneCanSeeThroughBecomesAPNG(t *testing.T) {
	picture := quarters(400, 400)
	picture.Set(200, 200, color.Transparent)
	small, typ := shrink(t, plainPNG(t, picture), media.PNG, 320)
	if typ != media.PNG || corners(small) != "krgw" {
		t.Errorf("%s, %s", typ, corners(small))
	}
}

func TestOfAnAnimationTheFirstFrameIsTaken(t *testing.T) {
	all := &gif.GIF{}
	for n := range 2 {
		frame := image.NewPaletted(image.Rect(0, 0, 400, 400), color.Palette{color.White, color.Black})
		for i := range frame.Pix {
			frame.Pix[i] = uint8(n)
		}
		all.Image, all.Delay = append(all.Image, frame), append(all.Delay, 1)
	}
	var b bytes.Buffer
	must(t, gif.EncodeAll(&b, all))
	small, typ := shrink(t, b.Bytes(), media.GIF, 320)
	if corners(small) != "wwww" || typ != media.JPEG {
		t.Errorf("%s, %s", corners(small), typ)
	}
}

func TestAWebPIsShrunkAlsoIfItMoves(t *testing.T) {
	small, _ := shrink(t, webpOf(riffChunk("VP8L", losslessWebP(1000, 500))), media.WebP, 320)
	if small.Bounds().Dy() != 160 {
		t.Error(small.Bounds())
	}
	small, typ := shrink(t, animatedWebP(), media.WebP, 12)
	if small.Bounds().Dx() != 12 || small.Bounds().Dy() != 8 || typ != media.JPEG {
		t.Error(small.Bounds(), typ)
	}
	if r, _, _, _ := small.At(5, 5).RGBA(); r < 0xb000 { // the colour of its one frame: 200, 10, 30
		t.Error(small.At(5, 5))
	}
}

func TestNothingIsDecodedThatIsOverALimitOrNotAsSaid(t *testing.T) {
	jpg := plainJPEG(t, 100, 100)
	for name, tc := range map[string]struct {
		bytes  []byte
		typ    string
		limits media.Limits
		want   mayfly.Kind
	}{
		"pixels":         {jpg, media.JPEG, media.Limits{Pixels: 9_999}, mayfly.TooLarge},
		"bytes":          {jpg, media.JPEG, media.Limits{Image: 100}, mayfly.TooLarge},
		"another type":   {jpg, media.PNG, media.Limits{}, mayfly.Corrupt},
		"a video":        {dirtyMP4(), media.MP4, media.Limits{}, mayfly.Unsupported},
		"a bomb":         {webpOf(riffChunk("VP8L", losslessWebP(16000, 16000))), media.WebP, media.Limits{}, mayfly.TooLarge},
		"cut off":        {jpg[:len(jpg)-100], media.JPEG, media.Limits{}, mayfly.Invalid},
		"no tables":      {[]byte("\xff\xd8" + string(jpegSegment(0xc0, "\x08\x00\x08\x00\x08\x01\x01\x11\x00")) + string(jpegSegment(0xda, "\x01\x01\x00\x00\x3f\x00")) + "abc\xff\xd9"), media.JPEG, media.Limits{}, mayfly.Invalid},
		"a bad picture":  {pngWith(plainPNG(t, pixels(8, 8))[:33], pngChunk("IDAT", "nonsense"), pngChunk("IEND", "")), media.PNG, media.Limits{}, mayfly.Invalid},
		"no type at all": {[]byte("text"), media.JPEG, media.Limits{}, mayfly.Unsupported},
	} {
		var out bytes.Buffer
		_, _, _, err := media.Shrink(&out, bytes.NewReader(tc.bytes), tc.typ, 320, tc.limits)
		if !errors.Is(err, tc.want) || out.Len() > 0 {
			t.Errorf("%s: %v, %d bytes", name, err, out.Len())
		}
	}
	if media.HasPicture(media.MP4) || !media.HasPicture(media.WebP) {
		t.Error("what has a picture")
	}
}

func FuzzShrink(f *testing.F) {
	for _, s := range samples(f) {
		f.Add(s.bytes)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		limits := media.Limits{Image: 1 << 20, Video: 1 << 20, Pixels: 1 << 16}
		c, err := media.Clean(bytes.NewReader(b), limits)
		if err != nil {
			return
		}
		var out bytes.Buffer
		width, height, _, err := media.Shrink(&out, bytes.NewReader(b), c.Type(), 32, limits)
		if err == nil && (width == 0 || height == 0 || width > 32 || height > 32) {
			t.Fatalf("%d × %d", width, height)
		}
	})
}
