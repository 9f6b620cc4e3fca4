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

// DroppedName is the name of the place up to which finished reminders are gone,
// among the watermarks.
const DroppedName = "remind-dropped"

const (
	dropMost  = 100              // minutes dropped in one pass (I17)
	dropLeast = 10 * time.Minute // worth a write
	dropReads = 8                // at once
)

// drop takes finished reminders away: whole minutes that lie Kept behind the
// watermark as it is stored. What was not finished in them has been written again
// in a later minute, or buried, before the watermark passed: no instant but that
// tells finished from unfinished, so that no store may end a reminder by its own
// clock (L13). The place is moved behind the deed: a crash in between drops what
// is gone already, and nothing is left out.
func (w *Walker) drop(ctx context.Context) error {
	behind := w.mark.At.Add(-w.o.Kept)
	if behind.Sub(w.dropped.At) < dropLeast {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, w.o.Timeout)
	defer cancel()
	first := (w.dropped.At + 1).Minute()
	end := min((behind + 1).Minute(), first+dropMost) // a minute that is not whole stays
	full, err := w.full(ctx, first, end)
	if err != nil {
		return fmt.Errorf("look for finished reminders: %w", err)
	}
	var b store.Batch
	for i, there := range full {
		if there {
			b.DeletePartition(store.Reminders, Partition(first+mayfly.Minute(i), w.shard.Number()))
		}
	}
	if len(b.Stages()) > 0 {
		if err := w.set.Writer.Commit(ctx, &b); err != nil {
			return fmt.Errorf("drop finished reminders: %w", err)
		}
	}
	if err := w.dropped.Move(ctx, w.set.Rows, end.Start()-1, 0); err != nil {
		w.tenure = 0
		return fmt.Errorf("note what was dropped: %w", err)
	}
	return nil
}

// full says of the minutes from first to end which have reminders: most have
// none, and a delete of nothing would leave a tombstone.
func (w *Walker) full(ctx context.Context, first, end mayfly.Minute) ([]bool, error) {
	full := make([]bool, end-first)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(dropReads)
	for i := range full {
		g.Go(func() error {
			r := store.Range{Partition: Partition(first+mayfly.Minute(i), w.shard.Number()), Limit: 1}
			rows, err := w.set.Rows.Range(ctx, store.Reminders, r)
			full[i] = len(rows) > 0
			return err
		})
	}
	return full, g.Wait()
}

// load reads the places of a new tenure.
func (w *Walker) load(ctx context.Context) (err error) {
	if w.mark, err = walk.LoadWatermark(ctx, w.set.Rows, Name, w.shard); err != nil {
		return fmt.Errorf("remind: load the watermark: %w", err)
	}
	if w.dropped, err = walk.LoadWatermark(ctx, w.set.Rows, DroppedName, w.shard); err != nil {
		return fmt.Errorf("remind: load what was dropped: %w", err)
	}
	return nil
}
