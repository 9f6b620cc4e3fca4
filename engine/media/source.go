package media

import (
	"errors"
	"fmt"
	"io"

	"github.com/mayflyhq/mayfly"
)

// piece is how many bytes are moved at once.
const piece = 32 << 10

// ahead is how far is looked: more than what the type is told by, and little
// for the many media that are small.
const ahead = 8 << 10

// take reads the next n bytes; whoever calls it has bounded n. Every byte that is
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
	limit := c.limits.Image
	if isVideo(c.typ) {
		limit = c.limits.Video
	}
	return mayfly.Errorf(mayfly.TooLarge, "the file is larger than %d bytes", limit).WithHint("send a smaller one")
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
