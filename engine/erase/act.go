package erase

import (
	"context"
	"errors"
	"fmt"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// Act erases what is left of deleted items in both tiers and in every table, and
// tells caches and log of their deletion once more (I7, I13): whoever deleted may
// never have come to it. It is what a reminder does, and whoever has just deleted. Rows that are not deleted are left alone; of one
// that is held nothing goes (I21). An item whose body is gone is finished.
func (e *Erase) Act(ctx context.Context, b walk.Batch) ([]walk.Failure, error) {
	rows, pictures, err := e.unfinished(ctx, b.Items)
	if err != nil {
		return nil, fmt.Errorf("erase: %w", err)
	}
	_ = store.PublishAll(ctx, e.set.Signals, signals(rows...)...) // before the bodies go: what has none is not looked at again
	if err := e.tellLog(ctx, rows...); err != nil {
		// The bytes do not wait for the log (L8, ST5). The bodies stay: they say that it was not told.
		return nil, fmt.Errorf("erase: %w", errors.Join(err, e.eraseObjects(ctx, erasable(rows), pictures)))
	}
	if err := e.erase(ctx, erasable(rows), pictures); err != nil {
		return nil, fmt.Errorf("erase: %w", err)
	}
	return nil, nil
}

// unfinished reads the rows of items again (I12) and answers those that are
// deleted and still have a body, with the renditions that there may be.
func (e *Erase) unfinished(ctx context.Context, items []mayfly.Item) ([]mayfly.Item, pictures, error) {
	deleted, err := e.deleted(ctx, items)
	if err != nil || len(deleted) == 0 {
		return nil, nil, err
	}
	bodies, err := e.set.Ledger.Body(ctx, ids(deleted)...)
	if err != nil {
		return nil, nil, fmt.Errorf("read %d bodies: %w", len(deleted), err)
	}
	var rows []mayfly.Item
	may := pictures{}
	for i, row := range deleted {
		if bodies[i].Found {
			rows = append(rows, row)
			may.add(row.ID, bodies[i].Body)
		}
	}
	return rows, may, nil
}

// deleted reads the rows of items again and answers those that are deleted.
func (e *Erase) deleted(ctx context.Context, items []mayfly.Item) ([]mayfly.Item, error) {
	if len(items) == 0 {
		return nil, nil
	}
	found, err := e.set.Ledger.Get(ctx, ids(items)...)
	if err != nil {
		return nil, fmt.Errorf("read %d rows: %w", len(items), err)
	}
	var rows []mayfly.Item
	for _, f := range found {
		if f.Found && f.Item.State == mayfly.Deleted {
			rows = append(rows, f.Item)
		}
	}
	return rows, nil
}

// erasable are the rows whose bytes may go.
func erasable(rows []mayfly.Item) []mayfly.Item {
	var free []mayfly.Item
	for _, row := range rows {
		if row.Erasable() == nil {
			free = append(free, row)
		}
	}
	return free
}

// erase erases everything of rows but the tombstones, the bodies last: a body
// that is there says that a crash may have left something.
func (e *Erase) erase(ctx context.Context, rows []mayfly.Item, may pictures) error {
	if len(rows) == 0 {
		return nil
	}
	if err := e.eraseObjects(ctx, rows, may); err != nil {
		return err
	}
	var b store.Batch
	for _, row := range rows {
		forget(&b, row)
		may.forget(&b, row.ID)
	}
	if len(b.Stages()) > 0 {
		if err := e.set.Writer.Commit(ctx, &b); err != nil {
			return fmt.Errorf("rows: %w", err)
		}
	}
	if err := e.eraseViews(ctx, rows); err != nil {
		return err
	}
	if err := e.set.Ledger.EraseBody(ctx, ids(rows)...); err != nil {
		return fmt.Errorf("bodies: %w", err)
	}
	return nil
}

// eraseObjects erases the media of rows in both tiers.
func (e *Erase) eraseObjects(ctx context.Context, rows []mayfly.Item, may pictures) error {
	keys, err := keysOf(rows, may)
	if err != nil || len(keys) == 0 {
		return err
	}
	if err := deleteAll(ctx, e.set.Hot, append(keys[:len(keys):len(keys)], rawKeys(rows)...)); err != nil {
		return fmt.Errorf("hot: %w", err)
	}
	if err := deleteAll(ctx, e.set.Cold, keys); err != nil {
		return fmt.Errorf("cold: %w", err)
	}
	return nil
}

// keysOf are the keys under which an object of rows can be, in either tier: of
// every generation, named or not, and of the next one, which a restore may have
// been writing when the deletion came first.
func keysOf(rows []mayfly.Item, may pictures) ([]mayfly.BlobKey, error) {
	var keys []mayfly.BlobKey
	for _, row := range rows {
		if err := row.Erasable(); err != nil {
			return nil, err
		}
		for g := mayfly.Born; g <= row.Generation+1; g++ {
			for n := range int(row.Media) {
				keys = append(keys, row.MediaKey(g, n))
			}
			for _, n := range may[row.ID] {
				keys = append(keys, row.MediaKey(g, n))
			}
		}
	}
	return keys, nil
}

// rawKeys are where media of rows may have been put by a presigned URL, before
// they were published or since (L11).
func rawKeys(rows []mayfly.Item) (keys []mayfly.BlobKey) {
	for _, row := range rows {
		for n := range int(row.Media) {
			keys = append(keys, mayfly.RawKey(row.Upload, n))
		}
	}
	return keys
}

// bulk is how many keys a tier is asked to delete at once.
const bulk = 1_000

func deleteAll(ctx context.Context, tier store.Blobs, keys []mayfly.BlobKey) error {
	for len(keys) > 0 {
		n := min(bulk, len(keys))
		if err := tier.Delete(ctx, keys[:n]...); err != nil {
			return fmt.Errorf("delete %d objects: %w", n, err)
		}
		keys = keys[n:]
	}
	return nil
}

// forget removes the rows of plain tables that name the item. Its reminders and
// dead letters name it too, and pass by themselves.
func forget(b *store.Batch, row mayfly.Item) {
	if !row.Owner.IsZero() {
		b.Delete(store.Owners, store.OwnerKey(row.Owner, row.ID))
	}
	if row.Media > 0 {
		b.Delete(store.Uploads, store.UploadKey(row.Upload))
	}
	if row.ServesUntil != 0 {
		b.Delete(store.Restored, store.RestoredKey(row.ID))
	}
}
