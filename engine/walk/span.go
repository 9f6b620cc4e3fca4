package walk

import (
	"context"
	"fmt"
	"math"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// Span is a part of the ledger: items with a deadline after From and up to To,
// and with Eternal also those that never expire.
type Span struct {
	From, To mayfly.Instant
	Eternal  bool
}

// Everything returns the span of the whole ledger.
func Everything() Span {
	return Span{To: mayfly.Minute(math.MaxUint32).Start(), Eternal: true}
}

// spanPage is how many rows of a span are read at once.
const spanPage = 500

// Each calls do with every row of the span, in pages.
func (s Span) Each(ctx context.Context, ledger store.Ledger, do func([]mayfly.Item) error) error {
	err := store.EachMinute(ctx, ledger, (s.From + 1).Minute(), s.To.Minute(), func(minute mayfly.Minute, shard mayfly.Shard) error {
		stretch := store.Stretch{Minute: minute, Shard: shard, To: s.To}
		err := pages(func() ([]mayfly.Item, error) { return ledger.Walk(ctx, stretch, spanPage) }, func(page []mayfly.Item) error {
			stretch.After = store.PositionOf(page[len(page)-1])
			return do(after(page, s.From))
		})
		if err != nil {
			return fmt.Errorf("minute %d, shard %d: %w", minute, shard, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if !s.Eternal {
		return nil
	}
	for shard := range mayfly.Shards {
		var last mayfly.ID
		err := pages(func() ([]mayfly.Item, error) { return ledger.Eternal(ctx, mayfly.Shard(shard), last, spanPage) }, func(page []mayfly.Item) error {
			last = page[len(page)-1].ID
			return do(page)
		})
		if err != nil {
			return fmt.Errorf("items that never expire, shard %d: %w", shard, err)
		}
	}
	return nil
}

// pages reads until a page is not full.
func pages(read func() ([]mayfly.Item, error), do func([]mayfly.Item) error) error {
	for {
		page, err := read()
		if err != nil || len(page) == 0 {
			return err
		}
		if err := do(page); err != nil || len(page) < spanPage {
			return err
		}
	}
}

// after returns the items of a page, which is ordered by deadline, whose deadline
// is after from.
func after(page []mayfly.Item, from mayfly.Instant) []mayfly.Item {
	for len(page) > 0 && page[0].ID.Deadline() <= from {
		page = page[1:]
	}
	return page
}
