// Package media is in charge of untrusted bytes: what they are, taking out of
// them what must not be in, and small pictures of them (ST3, C4).
//
// What Clean passes on is the medium and nothing else: no position, no names, no
// dates of the one who took it, no bytes before or behind it. Its memory is bounded
// whatever the bytes say of themselves: a length is never believed before that many
// bytes have come. Images and WebM are streamed; MP4 is kept in a temporary file until
// its index has come. Clean decodes no picture; Shrink does, within limits that were
// checked before.
package media

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"runtime"

	"github.com/mayflyhq/mayfly"
)

// Limits bound one medium.
type Limits struct {
	Image  int64 // bytes of an image; default 20 MiB
	Video  int64 // bytes of a video; default 64 MiB
	Pixels int64 // of an image, or of a video's picture; default 50 million
	Memory int64 // bytes that Shrink takes to decode an image; default DecodeMemory
}

// WithDefaults returns the limits with a default for each that is 0. Errors: Invalid.
func (l Limits) WithDefaults() (Limits, error) {
	if l.Image == 0 {
		l.Image = mayfly.DefaultMaxImage
	}
	if l.Video == 0 {
		l.Video = mayfly.DefaultMaxVideo
	}
	if l.Pixels == 0 {
		l.Pixels = mayfly.DefaultMaxPixels
	}
	if l.Memory == 0 {
		l.Memory = DecodeMemory
	}
	if l.Image < 0 || l.Video < 0 || l.Pixels < 0 || l.Memory < 0 {
		return l, mayfly.Errorf(mayfly.Invalid, "media: a limit is out of range: %+v", l)
	}
	return l, nil
}

// Cleaned reads a medium without what Clean takes out of it. The caller must close it.
// Not safe for concurrent use.
type Cleaned struct {
	typ    string
	limits Limits
	in     *bufio.Reader
	out    bytes.Buffer
	next   step
	err    error

	memory   int64 // that decoding may take; 0: it is not decoded
	left     int64 // bytes that may still be read
	elements int64 // parts of the file that may still be looked at

	cleaner        *Cleaner
	working, video bool  // it has the turn; it is a video that has arrived
	spool          spool // of a video

	width, height uint32
	turned        uint8 // EXIF's orientation, 1 to 8
}

// step writes a bounded piece of the medium to c.out and says what comes then;
// nil is the end of the medium.
type step func(c *Cleaned) (step, error)

// A file may have one part for that many bytes of its limit, and leastElements in any
// case: a look at a part costs more than to send it (I17). A video of two hours in 64 MiB
// has a block of 110 bytes for each frame and each 20 ms of sound.
const (
	bytesPerElement = 128
	leastElements   = 1 << 16
)

// element counts a part of the file that is about to be looked at: a box, an element, a
// chunk, a segment, a block.
func (c *Cleaned) element() error {
	if c.elements--; c.elements < 0 {
		return mayfly.Errorf(mayfly.TooLarge, "the file has more than %d parts", max(leastElements, c.limit()/bytesPerElement)).
			WithHint("save it again with another program")
	}
	return nil
}

// limit is how many bytes a medium of the type may have.
func (c *Cleaned) limit() int64 {
	if isVideo(c.typ) {
		return c.limits.Video
	}
	return c.limits.Image
}

// Clean tells r's type by its content and returns a reader of the same medium
// without metadata: EXIF, XMP, IPTC, positions, comments, titles, dates, and
// whatever lies before or behind it. Of EXIF the orientation alone stays. What
// is broken shows when it is reached, as an error of Read. Errors: Unsupported
// (with a hint), Invalid, and what r returns.
func Clean(r io.Reader, limits Limits) (*Cleaned, error) {
	limits, err := limits.WithDefaults()
	if err != nil {
		return nil, err
	}
	return (&Cleaner{o: CleanerOptions{Limits: limits}}).Clean(r)
}

// Type is the medium's type, by its content.
func (c *Cleaned) Type() string { return c.typ }

// Dimensions are those of the picture as it is shown, its orientation applied.
// They are known when Read has returned io.EOF at the latest.
func (c *Cleaned) Dimensions() (width, height uint32) {
	if c.turned > lastUpright {
		return c.height, c.width
	}
	return c.width, c.height
}

// Read reads the cleaned medium. Errors: TooLarge, Invalid (broken or cut off),
// Unsupported, and what the reader below returned.
func (c *Cleaned) Read(p []byte) (int, error) {
	if c.out.Len() == 0 && c.err == nil {
		c.err = c.work()
	}
	if c.out.Len() == 0 {
		return 0, c.err
	}
	return c.out.Read(p)
}

// work takes steps until there is a piece to read, the medium ends, or a step fails.
func (c *Cleaned) work() error {
	err := c.turn()
	for err == nil && c.out.Len() < piece && c.next != nil {
		c.next, err = c.next(c)
	}
	c.rest()
	switch {
	case err != nil:
		c.out.Reset() // half a piece is of no use
		err = fmt.Errorf("%s: %w", c.typ, err)
	case c.out.Len() == 0:
		err = io.EOF
	default:
		return nil
	}
	c.free()
	return err
}

// measure takes the dimensions of the picture, and refuses what is too large to
// be decoded.
func (c *Cleaned) measure(width, height uint32) error {
	if err := c.fits(width, height); err != nil {
		return err
	}
	c.width, c.height = width, height
	return nil
}

func (c *Cleaned) fits(width, height uint32) error {
	if width == 0 || height == 0 {
		return broken("a picture of %d × %d pixels", width, height)
	}
	if uint64(width)*uint64(height) > uint64(c.limits.Pixels) { // of two numbers of 32 bits no int64 holds every product
		return mayfly.Errorf(mayfly.TooLarge, "a picture of %d × %d pixels", width, height).
			WithHint(fmt.Sprintf("at most %d pixels: make it smaller", c.limits.Pixels))
	}
	return nil
}

// reserve refuses a picture that takes more memory to decode than is allowed, before the
// decoder sees what it allocates by: need for its pixels, and at most spare for tables.
func (c *Cleaned) reserve(need, spare int64) error {
	switch {
	case c.memory == 0:
	case need+spare > c.memory:
		return mayfly.Errorf(mayfly.TooLarge, "a picture of %d × %d pixels that may take %d MiB to decode", c.width, c.height, (need+spare)>>20).
			WithHint("save it as a baseline JPEG, or make it smaller")
	case need > muchMemory:
		runtime.GC() // what the picture before it took is free
	}
	return nil
}

// broken is the error for bytes that are not what they began as.
func broken(format string, args ...any) error {
	return mayfly.Errorf(mayfly.Invalid, "the file is broken: "+format, args...).WithHint("save it again, or send another")
}
