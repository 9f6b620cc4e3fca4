package hydrate

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/media"
	"github.com/mayflyhq/mayfly/store"
)

// weight is how much room decoding takes: a picture of the largest size has a
// worker's room for itself, and four small ones share it.
func (h *Hydrate) weight(m mayfly.Medium) int64 {
	most := h.o.Limits.Pixels
	pixels := int64(m.Width) * int64(m.Height)
	if pixels <= 0 {
		pixels = most
	}
	return max(1, most/4, min(most, pixels))
}

// makeNow decodes, makes smaller and keeps. What cannot be decoded is written
// down, so that nobody tries again.
func (h *Hydrate) makeNow(ctx context.Context, r rendition) (*picture, error) {
	weight := h.weight(r.body.Media[r.m])
	if err := h.making.room.Acquire(ctx, weight); err != nil {
		return nil, errClosed()
	}
	made, err := h.shrink(ctx, r)
	h.making.room.Release(weight)
	if errors.Is(err, mayfly.Invalid) || errors.Is(err, mayfly.Unsupported) || errors.Is(err, mayfly.TooLarge) {
		err = errNoPicture(r.item.ID, r.m)
		if keepErr := h.keep(ctx, r, &picture{}); keepErr != nil {
			h.o.Problem(r.item.ID, keepErr)
		}
	}
	if err != nil {
		return nil, err
	}
	if err := h.keep(ctx, r, made); err != nil { // whoever asked has it nevertheless
		h.o.Problem(r.item.ID, fmt.Errorf("keep object %d: %w", r.n, err))
	}
	return made, nil
}

func (h *Hydrate) shrink(ctx context.Context, r rendition) (*picture, error) {
	from, err := h.source(ctx, r)
	if err != nil {
		return nil, err
	}
	defer from.Close() // it was read to its end, or there is an error already
	var out bytes.Buffer
	width, height, typ, err := media.Shrink(&out, from, from.Type, r.longest, h.o.Limits)
	if err != nil {
		return nil, err
	}
	if _, err := io.Copy(io.Discard, from); err != nil { // I14: the rest of it may not be what was uploaded
		return nil, err
	}
	return &picture{
		Medium: mayfly.Medium{Type: typ, Size: int64(out.Len()), SHA256: sha256.Sum256(out.Bytes()), Width: width, Height: height},
		bytes:  out.Bytes(), tier: from.Tier,
	}, nil
}

// source is what a rendition is made of: the large one, if it is there, or the
// original.
func (h *Hydrate) source(ctx context.Context, r rendition) (*Medium, error) {
	if large, ok := mayfly.RenditionOf(r.m, mayfly.LargeRendition); ok && r.n != large {
		m, err := h.openRendition(ctx, r.item, large)
		if err == nil || !errors.Is(err, mayfly.NotFound) && !errors.Is(err, mayfly.Corrupt) {
			return m, err
		}
	}
	return h.Open(ctx, r.item, r.body, r.m, store.Span{})
}
