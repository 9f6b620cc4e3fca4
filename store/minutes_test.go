package store_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/storetest"
)

func TestEachMinuteVisitsMinutesWithRowsInOrder(t *testing.T) {
	type visit struct {
		minute mayfly.Minute
		shard  mayfly.Shard
	}
	set := storetest.NewModel().Set()
	const from, to = 29_000_000, 29_600_000 // more than a year apart
	var b store.Batch
	var want []visit
	for i, minute := range []mayfly.Minute{from - 1, from, from, from + 7, from + 7, from + 7, from + 10_080, to, to, to + 1} {
		shard := mayfly.Shard(15 - i)
		birth := minute.Start() - mayfly.Instant(mayfly.MaxLifetime.Duration().Milliseconds())
		id, err := mayfly.NewID(birth, mayfly.MaxLifetime, 0, rand.Uint64()&^0xf|uint64(shard))
		if err != nil {
			t.Fatal(err)
		}
		b.Insert(store.Birth{Item: mayfly.Item{ID: id, Product: mayfly.Story, Fate: mayfly.Purge, Audience: mayfly.Everyone, State: mayfly.Active, Generation: mayfly.Born, Nonce: 1, Changed: birth}})
		if minute >= from && minute <= to {
			want = append(want, visit{minute, shard})
		}
	}
	if err := set.Writer.Commit(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(want, func(a, b visit) int {
		if a.minute != b.minute {
			return int(a.minute) - int(b.minute)
		}
		return int(a.shard) - int(b.shard)
	})
	var got []visit
	err := store.EachMinute(t.Context(), set.Ledger, from, to, func(minute mayfly.Minute, shard mayfly.Shard) error {
		got = append(got, visit{minute, shard})
		return nil
	})
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
}
