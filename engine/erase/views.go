package erase

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// eraseSeen removes what the user has seen, and the views of it, which lie with
// the stories: those first, because the row here is what finds them.
func (e *Erase) eraseSeen(ctx context.Context, r *Receipt) error {
	return e.partition(ctx, store.Seen, string(r.User[:]), func(page []store.Row) error {
		var b store.Batch
		for _, row := range page {
			if len(row.Clustering) != len(mayfly.ID{}) {
				return mayfly.Errorf(mayfly.Corrupt, "a key of %d bytes", len(row.Clustering))
			}
			b.Delete(store.Views, store.ViewKey(mayfly.ID([]byte(row.Clustering)), r.User))
		}
		b.Then()
		for _, row := range page {
			b.Delete(store.Seen, store.Key{Partition: string(r.User[:]), Clustering: row.Clustering})
		}
		r.count(store.Seen, len(page))
		r.count(store.Views, len(page))
		return e.set.Writer.Commit(ctx, &b)
	})
}

// viewsPage is how many views of a slice are read at once.
const viewsPage = 500

// viewsOver is after how long no view of what has ended is there any more: many
// times what views are kept for.
const viewsOver = 30 * day

// mayHaveViews says whether views are worth looking for. Only stories have any,
// and what was deleted long after its end has none left.
func mayHaveViews(item mayfly.Item) bool {
	return item.Product == mayfly.Story && (!item.ID.Expires() || item.Changed <= item.End().Add(viewsOver))
}

// together is how many calls of one step are under way at once: one behind the
// other, the slices of a batch would take a minute in a cluster.
const together = 32

// eraseViews removes the views of items, and of each that its viewer has seen it.
// What a view in flight leaves goes in its own time, as every view does.
func (e *Erase) eraseViews(ctx context.Context, items []mayfly.Item) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(together)
	for _, item := range items {
		if !mayHaveViews(item) {
			continue
		}
		for n := range store.ViewSlices {
			g.Go(func() error {
				if err := e.eraseSlice(ctx, item.ID, store.ViewPartition(item.ID, n)); err != nil {
					return fmt.Errorf("views of %s: %w", item.ID, err)
				}
				return nil
			})
		}
	}
	return g.Wait()
}

func (e *Erase) eraseSlice(ctx context.Context, id mayfly.ID, partition string) error {
	for {
		page, err := e.set.Rows.Range(ctx, store.Views, store.Range{Partition: partition, Limit: viewsPage})
		if err != nil || len(page) == 0 {
			return err
		}
		var b store.Batch
		for _, row := range page {
			if len(row.Clustering) != len(mayfly.UserID{}) {
				return mayfly.Errorf(mayfly.Corrupt, "a key of %d bytes", len(row.Clustering))
			}
			b.Delete(store.Seen, store.SeenKey(mayfly.UserID([]byte(row.Clustering)), id))
		}
		b.Then()
		for _, row := range page {
			b.Delete(store.Views, store.Key{Partition: partition, Clustering: row.Clustering})
		}
		if err := e.set.Writer.Commit(ctx, &b); err != nil || len(page) < viewsPage {
			return err
		}
	}
}
