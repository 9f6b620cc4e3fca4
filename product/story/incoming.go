package story

import (
	"errors"
	"fmt"
	"io"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/media"
)

// incoming is a medium on its way in, cleaned (C4). It ends when what was sent
// ends, not when the medium does: phones put whole films behind their pictures,
// and a body that breaks off behind the medium was not sent whole either.
type incoming struct {
	*media.Cleaned
	sent io.Reader
	left int64 // bytes that may be dropped behind the medium
}

func (s *Stories) clean(r io.Reader) (*incoming, error) {
	cleaned, err := media.Clean(r, s.o.Media)
	if err != nil {
		return nil, err
	}
	in := &incoming{Cleaned: cleaned, sent: r, left: s.o.Media.Video}
	if media.HasPicture(cleaned.Type()) {
		in.left = s.o.Media.Image
	}
	return in, nil
}

func (in *incoming) Read(p []byte) (int, error) {
	n, err := in.Cleaned.Read(p)
	if errors.Is(err, io.EOF) {
		err = in.rest()
	}
	return n, err
}

// rest drops what comes behind the medium; io.EOF is the end of it.
func (in *incoming) rest() error {
	dropped, err := io.Copy(io.Discard, io.LimitReader(in.sent, in.left+1))
	in.left -= dropped
	switch {
	case err != nil:
		return fmt.Errorf("behind the medium: %w", err)
	case in.left < 0:
		return mayfly.Errorf(mayfly.TooLarge, "too much comes behind the medium").WithHint("send the picture or the video alone")
	default:
		return io.EOF
	}
}
