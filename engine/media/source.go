package media

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/gabriel-vasile/mimetype"

	"github.com/mayflyhq/mayfly"
)

// piece is how many bytes are moved at once.
const piece = 32 << 10

// ahead is how many bytes are read ahead: more than the detection of the type needs, and little
// for the many media that are small.
const ahead = 8 << 10

// take reads the next n bytes; the caller has bounded n. Every byte that is
// read counts, also one that is dropped.
func (c *Cleaned) take(n int) ([]byte, error) {
	b := make([]byte, n)
	if err := c.spend(int64(n)); err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(c.in, b); err != nil {
		return nil, cutOff(err)
	}
	return b, nil
}

func (c *Cleaned) takeByte() (byte, error) {
	if err := c.spend(1); err != nil {
		return 0, err
	}
	b, err := c.in.ReadByte()
	if err != nil {
		return 0, cutOff(err)
	}
	return b, nil
}

// spend counts n bytes that are about to be read.
func (c *Cleaned) spend(n int64) error {
	if n > c.left {
		return c.tooLong()
	}
	c.left -= n
	return nil
}

func (c *Cleaned) tooLong() error {
	return mayfly.Errorf(mayfly.TooLarge, "the file is larger than %d bytes", c.limit()).WithHint("send a smaller one")
}

// atEnd says whether nothing comes any more.
func (c *Cleaned) atEnd() (bool, error) {
	_, err := c.in.Peek(1)
	if errors.Is(err, io.EOF) {
		return true, nil
	}
	if err != nil {
		return false, cutOff(err)
	}
	return false, nil
}

// cutOff makes the end of the bytes in the middle of a medium an error of ours;
// any other error is the reader's own.
func cutOff(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return broken("it ends too early")
	}
	return fmt.Errorf("read on: %w", err)
}

// treat is what becomes of bytes that pass.
type treat uint8

const (
	keep treat = iota
	drop
	blank // zeros instead, so that what lies behind keeps its place
)

// pass treats the next n bytes, piece by piece, and goes on with then. A length
// that is over the limit is refused before a byte of it is read.
func pass(n int64, how treat, then step) step {
	return func(c *Cleaned) (step, error) {
		if n > c.left {
			return nil, c.tooLong()
		}
		part := min(n, piece)
		if part > 0 {
			b, err := c.take(int(part))
			if err != nil {
				return nil, err
			}
			if how == blank {
				clear(b)
			}
			if how != drop {
				c.out.Write(b)
			}
		}
		if n == part {
			return then, nil
		}
		return pass(n-part, how, then), nil
	}
}

// The types that are taken (ST3). QuickTime becomes MP4.
const (
	JPEG      = "image/jpeg"
	PNG       = "image/png"
	GIF       = "image/gif"
	WebP      = "image/webp"
	MP4       = "video/mp4"
	WebM      = "video/webm"
	QuickTime = "video/quicktime"
)

// Types lists what is stored and served.
func Types() []string { return []string{JPEG, PNG, GIF, WebP, MP4, WebM} }

// Taken lists what is taken.
func Taken() []string { return append(Types(), QuickTime) }

// HasPicture says whether Shrink makes smaller pictures of that type.
func HasPicture(typ string) bool {
	switch typ {
	case JPEG, PNG, GIF, WebP:
		return true
	default:
		return false
	}
}

func isVideo(typ string) bool { return typ == MP4 || typ == WebM }

// sniffLength is enough to tell what is not taken by its name.
const sniffLength = 3072

// tell says what the first bytes are of. What a file calls itself counts for
// nothing, and neither does anything before its first byte.
func tell(head []byte) (typ string, first step, err error) {
	switch {
	case len(head) == 0:
		return "", nil, mayfly.Errorf(mayfly.Invalid, "the medium is empty").WithHint("send the bytes of the medium")
	case bytes.HasPrefix(head, []byte("\xff\xd8\xff")):
		return JPEG, jpegStart, nil
	case bytes.HasPrefix(head, []byte(pngSignature)):
		return PNG, pngStart, nil
	case bytes.HasPrefix(head, []byte("GIF87a")), bytes.HasPrefix(head, []byte("GIF89a")):
		return GIF, gifStart, nil
	case len(head) >= 12 && string(head[:4]) == "RIFF" && string(head[8:12]) == "WEBP":
		return WebP, webpStart, nil
	case len(head) >= 12 && string(head[4:8]) == "ftyp" && mp4Brand(string(head[8:12])), isOldQuickTime(head):
		return MP4, mp4Start, nil
	case bytes.HasPrefix(head, []byte("\x1a\x45\xdf\xa3")) && !bytes.Contains(head[:min(len(head), 128)], []byte("matroska")):
		return WebM, webmStart, nil
	}
	return "", nil, refuse(head)
}

func refuse(head []byte) error {
	name, _, _ := strings.Cut(mimetype.Detect(head).String(), ";")
	hint := "send " + strings.Join(Taken(), ", ")
	switch {
	case strings.HasPrefix(name, "image/hei"):
		hint = "save it as JPEG: a phone's camera does so when it is set to the most compatible format"
	case name == "image/avif":
		hint = "save it as JPEG, PNG or WebP"
	}
	return mayfly.Errorf(mayfly.Unsupported, "%s is not taken", name).WithHint(hint)
}
