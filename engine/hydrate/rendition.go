package hydrate

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/media"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/store"
)

// rendition is a request for a rendition.
type rendition struct {
	item    mayfly.Item
	body    mayfly.Body
	m, n    int // number of the medium, and of the object of its rendition
	longest int
	now     mayfly.Instant
}

// Rendition opens the rendition of medium m with the given longest side, and makes it
// if it does not exist. An image that is not larger is its own rendition. Errors:
// those of Open, NotFound (no such medium or size), Unsupported (no picture can be
// made: show the medium itself), Unavailable (too many requests wait).
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
	return mayfly.Errorf(mayfly.Unsupported, "medium %d of %s has no smaller picture", m, id).WithHint("show the medium itself")
}

// isOwnRendition reports whether the image is small enough already.
func isOwnRendition(m mayfly.Medium, longest int) bool {
	return m.Width > 0 && m.Height > 0 && max(m.Width, m.Height) <= uint32(longest)
}

// openRendition opens a stored rendition in a tier that the row names. NotFound means
// that it must be made.
func (h *Hydrate) openRendition(ctx context.Context, item mayfly.Item, n int) (*Medium, error) {
	type location struct {
		tier store.Blobs
		name Tier
		g    mayfly.Generation
	}
	var locations []location
	var keys []store.Key
	for _, at := range []location{{h.hot, Hot, item.Keys.Hot}, {h.cold, Cold, item.Keys.Cold}} {
		if at.g != 0 {
			locations, keys = append(locations, at), append(keys, upload.RenditionKey(item.ID, at.g, n))
		}
	}
	missing := mayfly.Errorf(mayfly.NotFound, "object %d of %s does not exist", n, item.ID)
	if len(keys) == 0 {
		return nil, missing
	}
	values, err := h.rows.Get(ctx, upload.Renditions, keys...)
	if err != nil {
		return nil, fmt.Errorf("hydrate %s: read the description of object %d: %w", item.ID, n, err)
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
		m, err := openCopy(ctx, locations[i].tier, item.MediaKey(locations[i].g, n), described, store.Span{})
		if errors.Is(err, mayfly.NotFound) || errors.Is(err, mayfly.Corrupt) {
			continue
		}
		if err == nil {
			m.Tier = locations[i].name
		}
		return m, err
	}
	return nil, missing
}

// picture is a new rendition.
type picture struct {
	mayfly.Medium
	bytes []byte
	tier  Tier // tier of its original
}

func (p *picture) open() *Medium {
	return &Medium{ReadCloser: io.NopCloser(bytes.NewReader(p.bytes)), Tier: p.tier, Type: p.Type, Size: p.Size, SHA256: p.SHA256}
}

// weight returns the capacity that decoding takes, in pixels: a picture of the largest
// size takes that of a worker, and up to four small ones share it.
func (h *Hydrate) weight(m mayfly.Medium) int64 {
	most := h.o.Limits.Pixels
	pixels := int64(m.Width) * int64(m.Height)
	if pixels <= 0 {
		pixels = most
	}
	return max(1, most/4, min(most, pixels))
}

// makeNow makes a rendition and stores it. If the picture cannot be decoded, it stores
// an empty description, so that it is not tried again.
func (h *Hydrate) makeNow(ctx context.Context, r rendition) (*picture, error) {
	var made *picture
	err := h.within(ctx, h.weight(r.body.Media[r.m]), func(limits media.Limits) (err error) {
		made, err = h.shrink(ctx, r, limits)
		return err
	})
	if errors.Is(err, mayfly.Invalid) || errors.Is(err, mayfly.Unsupported) || errors.Is(err, mayfly.TooLarge) {
		err = errNoPicture(r.item.ID, r.m)
		if keepErr := h.keep(ctx, r, &picture{}); keepErr != nil {
			h.o.Problem(r.item.ID, keepErr)
		}
	}
	if err != nil {
		return nil, err
	}
	if err := h.keep(ctx, r, made); err != nil { // the caller gets the rendition nevertheless
		h.o.Problem(r.item.ID, fmt.Errorf("store object %d: %w", r.n, err))
	}
	return made, nil
}

// within decodes a picture when there is room for weight, with that share of the memory
// of a worker: pictures that are decoded at the same time do not take more together. One
// that takes more than its share is decoded again, alone.
func (h *Hydrate) within(ctx context.Context, weight int64, decode func(media.Limits) error) error {
	if err := h.making.room.Acquire(ctx, weight); err != nil {
		return errClosed()
	}
	limits := h.o.Limits
	limits.Memory = max(1, int64(float64(limits.Memory)*float64(weight)/float64(limits.Pixels)))
	err := decode(limits)
	h.making.room.Release(weight)
	if errors.Is(err, mayfly.TooLarge) && weight < h.o.Limits.Pixels {
		return h.within(ctx, h.o.Limits.Pixels, decode)
	}
	return err
}

func (h *Hydrate) shrink(ctx context.Context, r rendition, limits media.Limits) (*picture, error) {
	from, err := h.source(ctx, r)
	if err != nil {
		return nil, err
	}
	defer from.Close() // it was read to its end, or an error is returned
	var out bytes.Buffer
	width, height, typ, err := media.Shrink(&out, from, from.Type, r.longest, limits)
	if err != nil {
		return nil, err
	}
	if _, err := io.Copy(io.Discard, from); err != nil { // verifies the hash of the rest (I14)
		return nil, err
	}
	return &picture{
		Medium: mayfly.Medium{Type: typ, Size: int64(out.Len()), SHA256: sha256.Sum256(out.Bytes()), Width: width, Height: height},
		bytes:  out.Bytes(), tier: from.Tier,
	}, nil
}

// source opens what a rendition is made from: the large rendition if it exists,
// otherwise the original.
func (h *Hydrate) source(ctx context.Context, r rendition) (*Medium, error) {
	if large, ok := mayfly.RenditionOf(r.m, mayfly.LargeRendition); ok && r.n != large {
		m, err := h.openRendition(ctx, r.item, large)
		if err == nil || !errors.Is(err, mayfly.NotFound) && !errors.Is(err, mayfly.Corrupt) {
			return m, err
		}
	}
	return h.Open(ctx, r.item, r.body, r.m, store.Span{})
}

// described is how long after the end of an item the descriptions of its hot
// renditions are kept: longer than the renditions are hot. The archive writes new
// descriptions for its copies.
const described = 7 * 24 * time.Hour

// stays reports whether a rendition may be stored beside the hot copy of the media:
// they are not being moved, and the item is not held (I21).
func stays(row mayfly.Item) bool {
	return !row.Held && row.Keys.Hot != 0 && (row.State == mayfly.Active || row.State == mayfly.ExpiredHot)
}

// keep stores a rendition beside its original and writes its description. Then it
// reads the row again: if the item was deleted, archived or restored meanwhile, keep
// removes the rendition, because the erasure may have run before it was written (I7,
// I12). An empty rendition gets only a description.
func (h *Hydrate) keep(ctx context.Context, r rendition, made *picture) error {
	row, err := h.row(ctx, r.item.ID)
	if err != nil || !stays(row) {
		return err
	}
	g := row.Keys.Hot
	if made.Size > 0 {
		if _, err := h.hot.Put(ctx, row.MediaKey(g, r.n), bytes.NewReader(made.bytes)); err != nil {
			return h.takeBack(ctx, row, g, r.n, fmt.Errorf("store the object: %w", err))
		}
	}
	var b store.Batch
	b.Put(upload.Renditions, upload.RenditionKey(row.ID, g, r.n), upload.AppendRendition(nil, made.Medium), reclaimAt(row, r.now))
	if err := h.writer.Commit(ctx, &b); err != nil {
		return h.takeBack(ctx, row, g, r.n, fmt.Errorf("store the description: %w", err))
	}
	now, err := h.row(ctx, row.ID)
	if err != nil {
		return h.takeBack(ctx, row, g, r.n, err)
	}
	if now.Keys.Hot != g || now.State != mayfly.Active && now.State != mayfly.ExpiredHot {
		return h.takeBack(ctx, row, g, r.n, nil)
	}
	return nil
}

func reclaimAt(row mayfly.Item, now mayfly.Instant) mayfly.Instant {
	if !row.ID.Expires() {
		return 0
	}
	return max(row.End(), now).Add(described)
}

// row reads the current row; the zero Item if there is none.
func (h *Hydrate) row(ctx context.Context, id mayfly.ID) (mayfly.Item, error) {
	found, err := h.ledger.Get(ctx, id)
	if err != nil {
		return mayfly.Item{}, fmt.Errorf("read the row: %w", err)
	}
	if !found[0].Found {
		return mayfly.Item{}, nil
	}
	return found[0].Item, nil
}

// backWithin is the timeout of takeBack, also after the request has ended.
const backWithin = 10 * time.Second

// takeBack removes a rendition that must not stay or whose result is unknown, and
// returns why. A rendition can always be made again. After a crash, the eraser finds
// what is left by its key, or the collector does.
func (h *Hydrate) takeBack(ctx context.Context, row mayfly.Item, g mayfly.Generation, n int, why error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), backWithin)
	defer cancel()
	if err := h.hot.Delete(ctx, row.MediaKey(g, n)); err != nil {
		return fmt.Errorf("remove object %d: %w", n, err)
	}
	var b store.Batch
	b.Delete(upload.Renditions, upload.RenditionKey(row.ID, g, n))
	if err := h.writer.Commit(ctx, &b); err != nil {
		return fmt.Errorf("remove the description of object %d: %w", n, err)
	}
	return why
}
