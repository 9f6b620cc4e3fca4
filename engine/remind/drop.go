package remind

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// DroppedName is the name of the watermark up to which finished reminders were
// dropped.
const DroppedName = "remind-dropped"

const (
	dropMost  = 100              // minutes dropped in one pass (I17)
	dropLeast = 10 * time.Minute // less is not worth a write
	dropReads = 8                // at once
)

// drop deletes finished reminders: whole minutes that are Kept behind the stored
// watermark. What was not finished in them was written again in a later minute, or
// became a dead letter, before the watermark passed. Only the watermark tells
// finished from unfinished, so no store may end a reminder by a time to live (L13).
// The position of drop moves after the delete: a crash in between deletes again
// what is gone already, and nothing is left out.
func (w *Walker) drop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	stored, tenure := w.lanes[0].walker.Watermark()
	if tenure != w.tenure {
		var err error
		if w.dropped, err = walk.LoadWatermark(ctx, w.set.Rows, DroppedName, w.shard); err != nil {
			return fmt.Errorf("load the watermark of dropped reminders: %w", err)
		}
		w.tenure = tenure
	}
	if stored.Add(-w.kept).Sub(w.dropped.At) < dropLeast {
		return nil
	}
	for _, l := range w.lanes[1:] { // another goroutine passes it
		mark, err := walk.LoadWatermark(ctx, w.set.Rows, l.name, w.shard)
		if err != nil {
			return fmt.Errorf("load the watermark of %s: %w", l.name, err)
		}
		stored = min(stored, mark.At)
	}
	behind := stored.Add(-w.kept)
	if behind.Sub(w.dropped.At) < dropLeast {
		return nil
	}
	first := (w.dropped.At + 1).Minute()
	end := min((behind + 1).Minute(), first+dropMost) // an incomplete minute stays
	full, err := w.full(ctx, first, end)
	if err != nil {
		return fmt.Errorf("look for finished reminders: %w", err)
	}
	var b store.Batch
	for i, there := range full {
		if there {
			b.DeletePartition(Reminders, Partition(first+mayfly.Minute(i), w.shard.Number()))
		}
	}
	if len(b.Stages()) > 0 {
		if err := w.set.Writer.Commit(ctx, &b); err != nil {
			return fmt.Errorf("drop finished reminders: %w", err)
		}
	}
	if err := w.dropped.Move(ctx, w.set.Rows, end.Start()-1, 0); err != nil {
		w.tenure = 0
		return fmt.Errorf("move the watermark of dropped reminders: %w", err)
	}
	return nil
}

// full reports which minutes from first to end have reminders. Most have none, and
// a delete of nothing would leave a tombstone in the store.
func (w *Walker) full(ctx context.Context, first, end mayfly.Minute) ([]bool, error) {
	full := make([]bool, end-first)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(dropReads)
	for i := range full {
		g.Go(func() error {
			r := store.Range{Partition: Partition(first+mayfly.Minute(i), w.shard.Number()), Limit: 1}
			rows, err := w.set.Rows.Range(ctx, Reminders, r)
			full[i] = len(rows) > 0
			return err
		})
	}
	return full, g.Wait()
}
