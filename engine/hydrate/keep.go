package hydrate

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/store"
)

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
