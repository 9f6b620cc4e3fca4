package pebblestore

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// keysUnder counts the keys that begin with prefix.
func keysUnder(t *testing.T, s *Store, prefix byte) (n int) {
	t.Helper()
	iter, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{prefix}, UpperBound: []byte{prefix + 1}})
	if err != nil {
		t.Fatal(err)
	}
	for ok := iter.First(); ok; ok = iter.Next() {
		n++
	}
	if err := iter.Close(); err != nil {
		t.Fatal(err)
	}
	return n
}

func reclaim(t *testing.T, s *Store, now mayfly.Instant, limit, want int) {
	t.Helper()
	if n, err := s.Reclaim(t.Context(), now, limit); err != nil || n != want {
		t.Fatalf("reclaim at %d: %d entries, %v; want %d", now, n, err, want)
	}
}

func TestReclaimDeletesOnlyRowsThatAreDue(t *testing.T) {
	s := openMem(t, vfs.NewMem())
	commit(t, s, func(b *store.Batch) {
		for n := range 200 {
			b.Put(remind.Reminders, store.Key{Partition: fmt.Sprint("p", n)}, []byte("v"), mayfly.Instant(1000+n))
		}
		b.Put(remind.Reminders, store.Key{Partition: "kept"}, []byte("v"), 0)
	})
	reclaim(t, s, 999, 1000, 0)
	reclaim(t, s, 1000, 1000, 1)
	reclaim(t, s, 1149, 100, 100)
	reclaim(t, s, 1149, 100, 49)
	if n := keysUnder(t, s, tablePrefix); n != 51 {
		t.Errorf("%d rows are left, want 51", n)
	}
	reclaim(t, s, 9999, 1000, 50)
	if n := keysUnder(t, s, reclaimPrefix); n != 0 {
		t.Errorf("%d entries are left", n)
	}
	values, err := s.Rows().Get(t.Context(), remind.Reminders, store.Key{Partition: "kept"})
	if err != nil || values[0] == nil {
		t.Error(values, err)
	}
}

func TestReclaimKeepsARowThatWasWrittenAgain(t *testing.T) {
	s := openMem(t, vfs.NewMem())
	plain, swapped := store.Key{Partition: "p", Clustering: "s"}, store.Key{Partition: "q"}
	for _, at := range []mayfly.Instant{10, 20, 0} {
		commit(t, s, func(b *store.Batch) { b.Put(engine.Owners, plain, fmt.Append(nil, int64(at)), at) })
	}
	if _, _, err := s.Rows().Swap(t.Context(), walk.Leases, swapped, nil, []byte("a"), 10); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Rows().Swap(t.Context(), walk.Leases, swapped, []byte("a"), []byte("b"), 30); err != nil {
		t.Fatal(err)
	}
	commit(t, s, func(b *store.Batch) { b.Put(engine.Owners, store.Key{Partition: "x"}, nil, 10) })
	commit(t, s, func(b *store.Batch) { b.Delete(engine.Owners, store.Key{Partition: "x"}) })
	reclaim(t, s, 25, 100, 4)
	values, err := s.Rows().Get(t.Context(), engine.Owners, plain)
	if err != nil || string(values[0]) != "0" {
		t.Errorf("a row that was written again without a reclaim time is %q, %v", values, err)
	}
	values, err = s.Rows().Get(t.Context(), walk.Leases, swapped)
	if err != nil || string(values[0]) != "b" {
		t.Errorf("a row that was swapped with a later reclaim time is %q, %v", values, err)
	}
	reclaim(t, s, 30, 100, 1)
	if n := keysUnder(t, s, tablePrefix); n != 1 {
		t.Errorf("%d rows are left, want 1", n)
	}
}

func TestALargePartitionIsDroppedInChunks(t *testing.T) {
	s := openMem(t, vfs.NewMem())
	const n = 2*dropChunk + 10
	for from := 0; from < n; from += 1000 {
		commit(t, s, func(b *store.Batch) {
			for i := from; i < min(from+1000, n); i++ {
				b.Put(engine.Owners, store.Key{Partition: "p", Clustering: fmt.Sprint(i)}, nil, 0)
			}
			b.Put(engine.Owners, store.Key{Partition: "pp"}, nil, 0)
		})
	}
	commit(t, s, func(b *store.Batch) {
		b.Put(engine.Owners, store.Key{Partition: "p", Clustering: "before"}, nil, 0)
		b.Then()
		b.DeletePartition(engine.Owners, "p")
		b.Then()
		b.Put(engine.Owners, store.Key{Partition: "p", Clustering: "after"}, []byte("v"), 0)
	})
	rows, err := s.Rows().Range(t.Context(), engine.Owners, store.Range{Partition: "p", Limit: 10})
	if err != nil || len(rows) != 1 || rows[0].Clustering != "after" {
		t.Fatal(rows, err)
	}
	if n := keysUnder(t, s, tablePrefix); n != 2 {
		t.Errorf("%d rows are left, want 2", n)
	}
}
