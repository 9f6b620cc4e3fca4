package erase

import (
	"context"
	"fmt"
	"math"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// Span is a part of the ledger: deadlines after From, up to To, and with Eternal
// also what never expires.
type Span struct {
	From, To mayfly.Instant
	Eternal  bool
}

// everything is the whole ledger, however long the lifetimes in it.
func everything() Span {
	return Span{To: mayfly.Minute(math.MaxUint32).Start(), Eternal: true}
}

// spanPage is how many rows of a span are read at once.
const spanPage = 500

// each hands every row of the span to do, in pages.
func (e *Erase) each(ctx context.Context, s Span, do func([]mayfly.Item) error) error {
	err := store.EachMinute(ctx, e.set.Ledger, (s.From + 1).Minute(), s.To.Minute(), func(minute mayfly.Minute, shard mayfly.Shard) error {
		stretch := store.Stretch{Minute: minute, Shard: shard, To: s.To}
		err := pages(func() ([]mayfly.Item, error) { return e.set.Ledger.Walk(ctx, stretch, spanPage) }, func(page []mayfly.Item) error {
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
	for shard := range mayfly.Shards {
		var last mayfly.ID
		if !s.Eternal {
			break
		}
		err := pages(func() ([]mayfly.Item, error) { return e.set.Ledger.Eternal(ctx, mayfly.Shard(shard), last, spanPage) }, func(page []mayfly.Item) error {
			last = page[len(page)-1].ID
			return do(page)
		})
		if err != nil {
			return fmt.Errorf("what never expires, shard %d: %w", shard, err)
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

// after are the items of a page in order of deadline whose deadline is after from.
func after(page []mayfly.Item, from mayfly.Instant) []mayfly.Item {
	for len(page) > 0 && page[0].ID.Deadline() <= from {
		page = page[1:]
	}
	return page
}
