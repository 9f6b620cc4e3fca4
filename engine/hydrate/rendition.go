package hydrate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/media"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/store"
)

// rendition is one that is asked for.
type rendition struct {
	item    mayfly.Item
	body    mayfly.Body
	m, n    int // the medium, and the object that its rendition is
	longest int
	now     mayfly.Instant
}

// Rendition opens medium m with that longest side; it is made where it is not
// there. An image that is no larger is its own rendition. Errors: those of Open,
// NotFound (no such medium or size), Unsupported (no picture can be made of it:
// show the medium itself), Unavailable (too many wait).
func (h *Hydrate) Rendition(ctx context.Context, item mayfly.Item, body mayfly.Body, m, longest int, now mayfly.Instant) (*Medium, error) {
	n, ok := mayfly.RenditionOf(m, longest)
	if !ok || m >= len(body.Media) || len(body.Media) > mayfly.MaxMedia {
		return nil, mayfly.Errorf(mayfly.NotFound, "%s has no medium %d of %d pixels", item.ID, m, longest)
	}
	if item.State == mayfly.Deleted {
		return nil, mayfly.Errorf(mayfly.NotFound, "%s is deleted", item.ID)
	}
	if !media.HasPicture(body.Media[m].Type) {
		return nil, errNoPicture(item.ID, m)
	}
	if isOwnRendition(body.Media[m], longest) {
		return h.Open(ctx, item, body, m, store.Span{})
	}
	r := rendition{item: item, body: body, m: m, n: n, longest: longest, now: now}
	found, err := h.openRendition(ctx, item, n)
	if !errors.Is(err, mayfly.NotFound) && !errors.Is(err, mayfly.Corrupt) {
		return found, err
	}
	made, err := h.make(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("hydrate %s: medium %d of %d pixels: %w", item.ID, m, longest, err)
	}
	return made.open(), nil
}

func errNoPicture(id mayfly.ID, m int) error {
	return mayfly.Errorf(mayfly.Unsupported, "no smaller picture is made of medium %d of %s", m, id).WithHint("show the medium itself")
}

// isOwnRendition says whether the image is small enough already.
func isOwnRendition(m mayfly.Medium, longest int) bool {
	return m.Width > 0 && m.Height > 0 && max(m.Width, m.Height) <= uint32(longest)
}

// openRendition opens a rendition where the row says that its media are, as it
// is described. NotFound says that it has to be made.
func (h *Hydrate) openRendition(ctx context.Context, item mayfly.Item, n int) (*Medium, error) {
	type home struct {
		tier store.Blobs
		name Tier
		g    mayfly.Generation
	}
	var homes []home
	var keys []store.Key
	for _, at := range []home{{h.hot, Hot, item.Keys.Hot}, {h.cold, Cold, item.Keys.Cold}} {
		if at.g != 0 {
			homes, keys = append(homes, at), append(keys, upload.RenditionKey(item.ID, at.g, n))
		}
	}
	missing := mayfly.Errorf(mayfly.NotFound, "object %d of %s is not made", n, item.ID)
	if len(keys) == 0 {
		return nil, missing
	}
	values, err := h.rows.Get(ctx, engine.Renditions, keys...)
	if err != nil {
		return nil, fmt.Errorf("hydrate %s: look for object %d: %w", item.ID, n, err)
	}
	for i, value := range values {
		if value == nil {
			continue
		}
		described, err := upload.ReadRendition(value)
		if err != nil {
			return nil, err
		}
		if described.Size == 0 {
			return nil, errNoPicture(item.ID, (n-mayfly.MaxMedia)/2)
		}
		m, err := openCopy(ctx, homes[i].tier, item.MediaKey(homes[i].g, n), described, store.Span{})
		if errors.Is(err, mayfly.NotFound) || errors.Is(err, mayfly.Corrupt) {
			continue
		}
		if err == nil {
			m.Tier = homes[i].name
		}
		return m, err
	}
	return nil, missing
}

// picture is a rendition that was just made.
type picture struct {
	mayfly.Medium
	bytes []byte
	tier  Tier // where its original was
}

func (p *picture) open() *Medium {
	return &Medium{ReadCloser: io.NopCloser(bytes.NewReader(p.bytes)), Tier: p.tier, Type: p.Type, Size: p.Size, SHA256: p.SHA256}
}
