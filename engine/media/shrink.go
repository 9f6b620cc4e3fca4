package media

import (
	"fmt"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"runtime"

	"golang.org/x/image/draw"

	"github.com/mayflyhq/mayfly"
)

const quality = 80 // of a JPEG that is looked at small

// DecodeMemory is how much memory an image may take while it is decoded. A rendition takes
// 256 MiB at most: the rest is for all else.
const DecodeMemory = 236 << 20

// muchMemory is from when on the collector runs before and after an image is decoded: it
// costs less than the decoding.
const muchMemory = 32 << 20

// Shrink decodes the picture in r and writes it so that its longest side is at
// most longest, the right side up: a JPEG, or a PNG where one can see through
// it. It makes nothing larger. Of an animation it takes the first frame. What it
// decodes goes through Clean, so that limits are held before a pixel is made.
// Errors: those of Clean, TooLarge (also if decoding takes too much memory), Unsupported (a type without a picture), Invalid, and
// what w returns.
func Shrink(w io.Writer, r io.Reader, typ string, longest int, limits Limits) (width, height uint32, outType string, err error) {
	if longest <= 0 || !HasPicture(typ) {
		return 0, 0, "", mayfly.Errorf(mayfly.Unsupported, "no picture of %d pixels is made of %s", longest, typ)
	}
	c, err := Clean(r, limits)
	if err != nil {
		return 0, 0, "", fmt.Errorf("shrink: %w", err)
	}
	if c.Type() != typ {
		return 0, 0, "", mayfly.Errorf(mayfly.Corrupt, "shrink: %s where %s was said", c.Type(), typ)
	}
	c.memory = c.limits.Memory
	large, err := decode(c)
	if err != nil {
		return 0, 0, "", fmt.Errorf("shrink: %w", err)
	}
	if size := large.Bounds(); 4*size.Dx()*size.Dy() > muchMemory {
		runtime.GC() // what decoding took beside the picture is free
	}
	small := turn(scale(large, longest), c.turned)
	outType = JPEG
	if small.Opaque() {
		err = jpeg.Encode(w, small, &jpeg.Options{Quality: quality})
	} else {
		outType, err = PNG, png.Encode(w, small)
	}
	if err != nil {
		return 0, 0, "", fmt.Errorf("shrink: encode: %w", err)
	}
	size := small.Bounds()
	return uint32(size.Dx()), uint32(size.Dy()), outType, nil
}

func decode(c *Cleaned) (image.Image, error) {
	var picture image.Image
	var err error
	switch c.Type() {
	case JPEG:
		picture, err = jpeg.Decode(c)
	case PNG:
		picture, err = png.Decode(c)
	case GIF:
		picture, err = gif.Decode(c)
	default:
		picture, err = decodeWebP(c)
	}
	switch {
	case c.err != nil && c.err != io.EOF: // why no more bytes came
		return nil, c.err
	case err != nil:
		return nil, mayfly.Errorf(mayfly.Invalid, "the picture cannot be decoded: %w", err).WithHint("save it again, or send another")
	case picture.Bounds().Empty():
		return nil, broken("a picture without pixels")
	}
	return picture, nil
}

// scale makes the picture smaller in halves: each pixel is the mean of those it
// stands for, without the memory that a wide filter takes.
func scale(picture image.Image, longest int) *image.RGBA {
	for {
		size := picture.Bounds()
		width, height := size.Dx(), size.Dy()
		last := max(width, height) < 2*longest
		if last {
			width, height = within(width, height, longest)
		} else {
			width, height = max(1, width/2), max(1, height/2)
		}
		small := image.NewRGBA(image.Rect(0, 0, width, height))
		draw.ApproxBiLinear.Scale(small, small.Bounds(), picture, size, draw.Src, nil)
		if last {
			return small
		}
		picture = small
	}
}

// within is the size of a picture whose longest side is at most longest.
func within(width, height, longest int) (int, int) {
	side := max(width, height)
	if side <= longest {
		return width, height
	}
	return max(1, (width*longest+side/2)/side), max(1, (height*longest+side/2)/side)
}

// turn makes a picture that is stored with EXIF's orientation stand upright.
func turn(picture *image.RGBA, orientation uint8) *image.RGBA {
	if orientation <= upright {
		return picture
	}
	width, height := picture.Bounds().Dx(), picture.Bounds().Dy()
	size := image.Rect(0, 0, width, height)
	if orientation > lastUpright {
		size = image.Rect(0, 0, height, width)
	}
	turned := image.NewRGBA(size)
	for y := range size.Dy() {
		for x := range size.Dx() {
			fromX, fromY := stored(x, y, width, height, orientation)
			copy(turned.Pix[turned.PixOffset(x, y):][:4], picture.Pix[picture.PixOffset(fromX, fromY):][:4])
		}
	}
	return turned
}

// stored is where the pixel that is shown at x, y is stored in a picture of
// width × height.
func stored(x, y, width, height int, orientation uint8) (int, int) {
	right, bottom := width-1, height-1
	switch orientation {
	case 2:
		return right - x, y
	case 3:
		return right - x, bottom - y
	case 4:
		return x, bottom - y
	case 5:
		return y, x
	case 6:
		return y, bottom - x
	case 7:
		return right - y, bottom - x
	default:
		return right - y, x
	}
}
