package upload

import (
	"errors"
	"fmt"
	"io"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/media"
)

// cleaned reads a medium that a user sends, without its metadata (C4). It ends
// where the sent bytes end, not where the medium ends: phones append whole films
// to their pictures, and a body that breaks off after the medium was not sent
// completely either.
type cleaned struct {
	*media.Cleaned
	sent io.Reader
	left int64 // bytes that may follow the medium and are dropped
}

// clean detects the type of r and returns a reader of the cleaned medium, which the
// caller must close. Errors: those of media.Clean.
func (u *Uploads) clean(r io.Reader) (*cleaned, error) {
	medium, err := u.cleaner.Clean(r)
	if err != nil {
		return nil, err
	}
	c := &cleaned{Cleaned: medium, sent: r, left: u.o.Limits.Video}
	if media.HasPicture(medium.Type()) {
		c.left = u.o.Limits.Image
	}
	return c, nil
}

func (c *cleaned) Read(p []byte) (int, error) {
	n, err := c.Cleaned.Read(p)
	if errors.Is(err, io.EOF) {
		err = c.dropRest()
	}
	return n, err
}

// dropRest reads and drops what follows the medium. It returns io.EOF at the end.
func (c *cleaned) dropRest() error {
	dropped, err := io.Copy(io.Discard, io.LimitReader(c.sent, c.left+1))
	c.left -= dropped
	switch {
	case err != nil:
		return fmt.Errorf("after the medium: %w", err)
	case c.left < 0:
		return mayfly.Errorf(mayfly.TooLarge, "too many bytes follow the medium").WithHint("send the picture or the video alone")
	default:
		return io.EOF
	}
}
