package pebblestore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/tables"
)

// A write that depends on what it has read must not run beside another one of the
// same row. Racing writers meet in that moment too seldom for a test, so this one
// holds the lock itself: what does not wait for it does not take it (trap 19).
func TestEveryWriteThatReadsFirstWaitsForTheLockOfItsRow(t *testing.T) {
	opts := Options{FS: vfs.NewMem(), Dir: "db", Tables: append(tables.All(), storetest.SwappedTable)}
	s, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	one := birth(t, seeded(t), testBirth, "24h")
	commit(t, s, func(b *store.Batch) { b.Insert(one) })
	event := mayfly.EventOf(one.Item, mayfly.WasCreated)
	key := store.Key{Partition: "p", Clustering: "c"}
	for name, tc := range map[string]struct {
		lock lock
		do   func(context.Context) error
	}{
		"swap": {rowLock(storetest.SwappedTable.Number(), key), func(ctx context.Context) error {
			_, _, err := s.Rows().Swap(ctx, storetest.SwappedTable, key, nil, []byte("v"), 0)
			return err
		}},
		"transition": {ledgerLock(one.Item.ID), func(ctx context.Context) error {
			_, err := s.Ledger().Transition(ctx, []mayfly.Change{expire(one.Item, 5)})
			return err
		}},
		"insert": {ledgerLock(one.Item.ID), func(ctx context.Context) error {
			var b store.Batch
			b.Insert(one)
			return s.Writer().Commit(ctx, &b)
		}},
		"append": {logLock(place(&event)), func(ctx context.Context) error { return s.Log().Append(ctx, event) }},
	} {
		t.Run(name, func(t *testing.T) {
			held := []lock{tc.lock}
			if err := s.locks.take(t.Context(), s.fuse, held); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			if err := tc.do(ctx); !errors.Is(err, mayfly.Unavailable) {
				t.Errorf("beside the holder of the lock it returns %v", err)
			}
			s.locks.free(held)
			if err := tc.do(t.Context()); err != nil {
				t.Errorf("with the lock free: %v", err)
			}
		})
	}
}
