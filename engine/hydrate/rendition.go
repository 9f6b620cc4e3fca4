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

// described is how long after the end of an item its hot renditions are
// described: longer than they are hot. What the archive has copied it describes
// anew.
const described = 7 * 24 * time.Hour

// stays says whether a rendition may stand beside the hot copy of the row's
// media: nobody is moving them, and nobody holds the item (I21).
func stays(row mayfly.Item) bool {
	return !row.Held && row.Keys.Hot != 0 && (row.State == mayfly.Active || row.State == mayfly.ExpiredHot)
}

// keep stores a rendition beside its original, describes it, and then reads the
// row once more: of an item that was deleted, archived or restored meanwhile it
// is taken back, because whoever did that may have erased before it was written
// (I7, I12). One that has no bytes is described only.
func (h *Hydrate) keep(ctx context.Context, r rendition, made *picture) error {
	row, err := h.row(ctx, r.item.ID)
	if err != nil || !stays(row) {
		return err
	}
	g := row.Keys.Hot
	if made.Size > 0 {
		if _, err := h.hot.Put(ctx, row.MediaKey(g, r.n), bytes.NewReader(made.bytes)); err != nil {
			return h.takeBack(ctx, row, g, r.n, fmt.Errorf("store it: %w", err))
		}
	}
	var b store.Batch
	b.Put(engine.Renditions, upload.RenditionKey(row.ID, g, r.n), upload.AppendRendition(nil, made.Medium), reclaimAt(row, r.now))
	if err := h.writer.Commit(ctx, &b); err != nil {
		return h.takeBack(ctx, row, g, r.n, fmt.Errorf("describe it: %w", err))
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

// row reads the row as it is; the zero Item where there is none.
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

// backWithin is how long taking back may take when nobody waits any more.
const backWithin = 10 * time.Second

// takeBack removes a rendition that must not stay, or of which nothing is known.
// It can always be made again. What a crash leaves here the eraser finds by its
// key, or the collector.
func (h *Hydrate) takeBack(ctx context.Context, row mayfly.Item, g mayfly.Generation, n int, why error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), backWithin)
	defer cancel()
	if err := h.hot.Delete(ctx, row.MediaKey(g, n)); err != nil {
		return fmt.Errorf("take object %d back: %w", n, err)
	}
	var b store.Batch
	b.Delete(engine.Renditions, upload.RenditionKey(row.ID, g, n))
	if err := h.writer.Commit(ctx, &b); err != nil {
		return fmt.Errorf("take the description of object %d back: %w", n, err)
	}
	return why
}
