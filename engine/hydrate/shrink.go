package hydrate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/media"
)

const (
	// MaxSent is the largest image that Shrink reads, in bytes.
	MaxSent = 5 << 20
	// maxReceiving is how many images Shrink reads at once: they are in memory.
	maxReceiving = 16
)

// Shrink writes a small picture of an image that a user sends, and returns its type. It
// takes its turn among the renditions. Errors: Unsupported (no image), Invalid,
// TooLarge, Unavailable, and those of reading.
func (h *Hydrate) Shrink(ctx context.Context, small io.Writer, sent io.Reader, longest int) (typ string, err error) {
	if !h.receiving.TryAcquire(1) {
		return "", mayfly.Errorf(mayfly.Unavailable, "%d images are arriving already", maxReceiving).WithHint("try again")
	}
	defer h.receiving.Release(1)
	image, err := io.ReadAll(io.LimitReader(sent, MaxSent+1))
	if err != nil {
		return "", fmt.Errorf("read an image: %w", err)
	}
	if len(image) > MaxSent {
		return "", mayfly.Errorf(mayfly.TooLarge, "the image has more than %d bytes", MaxSent).WithHint("send a smaller one")
	}
	described, err := describe(image, h.o.Limits)
	if err != nil {
		return "", err
	}
	if err := h.making.begin(h.o.Queue); err != nil {
		return "", err
	}
	defer h.making.end()
	if !h.making.join() {
		return "", errClosed()
	}
	defer h.making.all.Done()
	err = h.within(ctx, h.weight(described), func(limits media.Limits) error {
		var out bytes.Buffer
		if _, _, typ, err = media.Shrink(&out, bytes.NewReader(image), described.Type, longest, limits); err != nil {
			return err
		}
		_, err = out.WriteTo(small)
		return err
	})
	return typ, err
}

// describe reads an image to its end, without decoding it.
func describe(image []byte, limits media.Limits) (m mayfly.Medium, err error) {
	c, err := media.Clean(bytes.NewReader(image), limits)
	if err == nil && !media.HasPicture(c.Type()) {
		err = errors.Join(mayfly.Errorf(mayfly.Unsupported, "%s is not an image", c.Type()).WithHint("send a JPEG, PNG, GIF or WebP"), c.Close())
		return m, err
	}
	if err != nil {
		return m, err
	}
	_, err = io.Copy(io.Discard, c)
	m.Type = c.Type()
	m.Width, m.Height = c.Dimensions()
	return m, errors.Join(err, c.Close())
}
