package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/mayflyhq/mayfly"
)

// EachMinute calls do for every minute and shard of the ledger that has rows of items
// that expire, from from to to (included), in order of minute and then shard. It asks
// the ledger for the next minute with rows, so that to may be as far away as the
// longest lifetime. It may also call do for minutes without rows: see
// Ledger.NextMinute.
func EachMinute(ctx context.Context, l Ledger, from, to mayfly.Minute, do func(mayfly.Minute, mayfly.Shard) error) error {
	type candidate struct {
		minute mayfly.Minute
		shard  mayfly.Shard
	}
	var next []candidate // at most one for each shard
	add := func(shard mayfly.Shard, from mayfly.Minute) error {
		minute, found, err := l.NextMinute(ctx, shard, from)
		if err != nil {
			return fmt.Errorf("next minute of shard %d: %w", shard, err)
		}
		if found && minute <= to {
			next = append(next, candidate{minute, shard})
		}
		return nil
	}
	for shard := range mayfly.Shard(mayfly.Shards) {
		if err := add(shard, from); err != nil {
			return err
		}
	}
	for len(next) > 0 {
		i := 0
		for n, c := range next {
			if c.minute < next[i].minute || c.minute == next[i].minute && c.shard < next[i].shard {
				i = n
			}
		}
		c := next[i]
		next = slices.Delete(next, i, i+1)
		if err := do(c.minute, c.shard); err != nil {
			return err
		}
		if c.minute == to {
			continue
		}
		if err := add(c.shard, c.minute+1); err != nil {
			return err
		}
	}
	return nil
}
