package erase

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// Act erases what is left of deleted items in both tiers and in every table. It
// also notifies caches and appends to the log once more, because a process that
// deleted an item may have stopped before it did (I7, I13). Reminders call it, and
// callers that have just deleted. Rows that are not deleted are left alone, and of
// a held item nothing is erased (I21). An item without a body is finished.
func (e *Erase) Act(ctx context.Context, b walk.Batch) ([]walk.Failure, error) {
	rows, may, err := e.unfinished(ctx, b.Items)
	if err != nil {
		return nil, fmt.Errorf("erase: %w", err)
	}
	_ = store.PublishAll(ctx, e.set.Signals, signals(rows...)...) // before the bodies go: an item without one is not looked at again
	if err := e.appendEvents(ctx, rows...); err != nil {
		// The bytes do not wait for the log (L8, ST5). The bodies stay: they show that the event is missing.
		return nil, fmt.Errorf("erase: %w", errors.Join(err, e.eraseObjects(ctx, erasable(rows), may)))
	}
	if err := e.erase(ctx, erasable(rows), may); err != nil {
		return nil, fmt.Errorf("erase: %w", err)
	}
	return nil, nil
}

// unfinished reads the rows of items again (I12) and returns those that are
// deleted and still have a body, with the renditions they may have.
func (e *Erase) unfinished(ctx context.Context, items []mayfly.Item) ([]mayfly.Item, renditions, error) {
	deleted, err := e.deleted(ctx, items)
	if err != nil || len(deleted) == 0 {
		return nil, nil, err
	}
	bodies, err := e.set.Ledger.Body(ctx, store.IDs(deleted)...)
	if err != nil {
		return nil, nil, fmt.Errorf("read %d bodies: %w", len(deleted), err)
	}
	var rows []mayfly.Item
	may := renditions{}
	for i, row := range deleted {
		if bodies[i].Found {
			rows = append(rows, row)
			may.add(row.ID, bodies[i].Body)
		}
	}
	return rows, may, nil
}

// deleted reads the rows of items again and returns those that are deleted.
func (e *Erase) deleted(ctx context.Context, items []mayfly.Item) ([]mayfly.Item, error) {
	if len(items) == 0 {
		return nil, nil
	}
	found, err := e.set.Ledger.Get(ctx, store.IDs(items)...)
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

// erasable returns the rows whose bytes may be erased.
func erasable(rows []mayfly.Item) []mayfly.Item {
	var free []mayfly.Item
	for _, row := range rows {
		if row.Erasable() == nil {
			free = append(free, row)
		}
	}
	return free
}

// erase erases everything of rows but the tombstones, the bodies last: as long as
// a body exists, a crash may have left something to erase.
func (e *Erase) erase(ctx context.Context, rows []mayfly.Item, may renditions) error {
	if len(rows) == 0 {
		return nil
	}
	if err := e.eraseObjects(ctx, rows, may); err != nil {
		return err
	}
	var b store.Batch
	for _, row := range rows {
		forget(&b, row)
		e.dropPartitions(&b, row)
	}
	if len(b.Stages()) > 0 {
		if err := e.set.Writer.Commit(ctx, &b); err != nil {
			return fmt.Errorf("rows: %w", err)
		}
	}
	if err := e.leaveRestored(ctx, rows); err != nil {
		return err
	}
	if err := e.eraseRows(ctx, rows); err != nil {
		return err
	}
	if err := e.set.Ledger.EraseBody(ctx, store.IDs(rows)...); err != nil {
		return fmt.Errorf("bodies: %w", err)
	}
	return nil
}

// eraseObjects erases the media of rows in both tiers.
func (e *Erase) eraseObjects(ctx context.Context, rows []mayfly.Item, may renditions) error {
	keys, err := keysOf(rows, may)
	if err != nil || len(keys) == 0 {
		return err
	}
	if err := DeleteObjects(ctx, e.set.Hot, append(keys[:len(keys):len(keys)], rawKeys(rows)...)); err != nil {
		return fmt.Errorf("hot: %w", err)
	}
	if err := DeleteObjects(ctx, e.set.Cold, keys); err != nil {
		return fmt.Errorf("cold: %w", err)
	}
	return nil
}

// keysOf returns every key under which an object of rows can be stored, in either
// tier: of every generation, named by the row or not, and of the next one, which a
// restore may have been writing when the item was deleted.
func keysOf(rows []mayfly.Item, may renditions) ([]mayfly.BlobKey, error) {
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

// rawKeys returns the keys that presigned URLs of rows may have been used to
// write, before the item was published or after (L11).
func rawKeys(rows []mayfly.Item) (keys []mayfly.BlobKey) {
	for _, row := range rows {
		for n := range int(row.Media) {
			keys = append(keys, mayfly.RawKey(row.Upload, n))
		}
	}
	return keys
}

// bulk is how many keys are deleted by one call.
const bulk = 1_000

// DeleteObjects deletes objects of a tier, in bulk.
func DeleteObjects(ctx context.Context, tier store.Blobs, keys []mayfly.BlobKey) error {
	for len(keys) > 0 {
		n := min(bulk, len(keys))
		if err := tier.Delete(ctx, keys[:n]...); err != nil {
			return fmt.Errorf("delete %d objects: %w", n, err)
		}
		keys = keys[n:]
	}
	return nil
}

// forget removes the rows of plain tables that name the item. Reminders and dead
// letters name it too; the reminder walk removes those.
func forget(b *store.Batch, row mayfly.Item) {
	if !row.Owner.IsZero() {
		b.Delete(engine.Owners, engine.OwnerKey(row.Owner, row.ID))
		engine.LeaveRings(b, row)
	}
	if row.Media > 0 {
		b.Delete(engine.Uploads, engine.UploadKey(row.Upload))
	}
}

// leaveRestored takes rows that were restored out of the restored set.
func (e *Erase) leaveRestored(ctx context.Context, rows []mayfly.Item) error {
	for _, row := range rows {
		if row.ServesUntil == 0 {
			continue
		}
		if _, err := store.Update(ctx, e.set.Rows, engine.Restored, engine.RestoredKey(row.ID), 0, func([]byte) ([]byte, error) { return nil, nil }); err != nil {
			return fmt.Errorf("restored set: %w", err)
		}
	}
	return nil
}

// renditions holds the numbers of the objects that renditions of items may be,
// made or not. An item without images has none, and no tier is asked for them.
type renditions map[mayfly.ID][]int

func (r renditions) add(id mayfly.ID, body mayfly.Body) {
	if numbers := body.Renditions(); len(numbers) > 0 {
		r[id] = numbers
	}
}

// isDropped reports whether the rows of an item are removed with one partition,
// unread: the table is plain, not sliced, and no other table mirrors its rows.
func isDropped(d store.Declaration) bool {
	return d.Erasure == store.PartitionIsItem && d.Mode == store.Plain && d.Slices == 0 && d.Mirror == ""
}

// dropPartitions removes the rows of an item from every declared table of items that
// needs no look at them.
func (e *Erase) dropPartitions(b *store.Batch, item mayfly.Item) {
	for _, t := range e.set.Rows.Tables() {
		if d := t.Declared(); isDropped(d) && (d.MayHave == nil || d.MayHave(item)) {
			b.DeletePartition(t, string(item.ID[:]))
		}
	}
}

// rowsPage is how many rows of a partition are read at once.
const rowsPage = 500

// together bounds the concurrent calls of one step. One after the other, the
// slices of a batch would take a minute in a cluster.
const together = 32

// eraseRows removes the rows of items in the other declared tables of items, with
// the mirror of each row. A row that is written after it is removed by its time to
// live or by its writer: the product that declares the table sees to that.
func (e *Erase) eraseRows(ctx context.Context, items []mayfly.Item) error {
	tables := e.set.Rows.Tables()
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(together)
	for _, t := range tables {
		d := t.Declared()
		if d.Erasure != store.PartitionIsItem || isDropped(d) {
			continue
		}
		for _, item := range items {
			if d.MayHave != nil && !d.MayHave(item) {
				continue
			}
			for _, partition := range t.ItemPartitions(item.ID) {
				g.Go(func() error {
					if err := e.erasePartition(ctx, tables, t, partition); err != nil {
						return fmt.Errorf("%s of %s: %w", t, item.ID, err)
					}
					return nil
				})
			}
		}
	}
	return g.Wait()
}

// erasePartition removes the rows of a partition, each after its mirror.
func (e *Erase) erasePartition(ctx context.Context, tables []store.Table, t store.Table, partition string) error {
	for from := ""; ; { // not from the start: deleted rows are passed again there
		page, err := e.set.Rows.Range(ctx, t, store.Range{Partition: partition, From: from, Limit: rowsPage})
		if err != nil || len(page) == 0 {
			return err
		}
		from = page[len(page)-1].Clustering + "\x00"
		if _, err := RemoveRows(ctx, e.set, tables, t, partition, page); err != nil || len(page) < rowsPage {
			return err
		}
	}
}

// wipes is how many rows of a page are removed concurrently by compare-and-set.
const wipes = 16

// RemoveRows removes rows of a partition as they were read, whatever they have
// become since, each after the row that mirrors it: after a crash the row here is
// what finds its mirror. It returns how many mirrors it removed and publishes the
// signals that the declaration asks for.
func RemoveRows(ctx context.Context, set store.Set, tables []store.Table, t store.Table, partition string, page []store.Row) (mirrors int, err error) {
	d := t.Declared()
	keys, mirrored := make([]store.Key, len(page)), make([]store.Key, len(page))
	mirror, hasMirror := store.TableNamed(tables, d.Mirror)
	var changed []store.Signal
	for i, row := range page {
		keys[i] = store.Key{Partition: partition, Clustering: row.Clustering}
		if hasMirror {
			if mirrored[i], err = d.MirrorKey(keys[i]); err != nil {
				return 0, err
			}
		}
		if d.Changed != nil {
			changed = append(changed, d.Changed(keys[i]))
		}
	}
	if hasMirror {
		mirrors, err = removeKeys(ctx, set, mirror, mirrored, nil)
	}
	if err == nil {
		_, err = removeKeys(ctx, set, t, keys, page)
	}
	if len(changed) > 0 {
		_ = store.PublishAll(ctx, set.Signals, changed...)
	}
	return mirrors, err
}

// removeKeys removes rows and returns how many it removed. page holds the rows as
// they were read; nil: they are read first if the table is a swapped one.
func removeKeys(ctx context.Context, set store.Set, t store.Table, keys []store.Key, page []store.Row) (int, error) {
	if t.Declared().Mode == store.Plain {
		var b store.Batch
		for _, key := range keys {
			b.Delete(t, key)
		}
		return len(keys), set.Writer.Commit(ctx, &b)
	}
	values := make([][]byte, len(keys))
	for i, row := range page {
		values[i] = row.Value
	}
	if page == nil {
		var err error
		if values, err = set.Rows.Get(ctx, t, keys...); err != nil {
			return 0, err
		}
	}
	removed := 0
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(wipes)
	for i, key := range keys {
		if values[i] == nil {
			continue
		}
		removed++
		g.Go(func() error { return store.RemoveRow(ctx, set.Rows, t, key, values[i]) })
	}
	return removed, g.Wait()
}
