package pebblestore

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

func event(t testing.TB, shard mayfly.Shard, n uint64, at mayfly.Instant) mayfly.Event {
	t.Helper()
	id := newID(t, testBirth, lifetime(t, "24h"), mayfly.UserID{}, n<<4|uint64(shard))
	return mayfly.Event{ID: id, Generation: mayfly.Born, Product: mayfly.Story, Verb: mayfly.WasExpired, At: at}
}

func readerOf(t testing.TB, s *Store, group string) store.Reader {
	t.Helper()
	r, err := s.Log().Reader(t.Context(), mayfly.Ends, group)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// drain reads all records that are there.
func drain(t testing.TB, r store.Reader) []store.Record {
	t.Helper()
	var all []store.Record
	for {
		lag, err := r.Lag(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if lag == 0 {
			return all
		}
		records, err := r.Next(t.Context(), 7)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, records...)
	}
}

// TestOffsetsHaveNoGapsWhileManyAppend: each reader sees every offset in order, and
// the events of one writer in the order in which it appended them.
func TestOffsetsHaveNoGapsWhileManyAppend(t *testing.T) {
	s := openMem(t, vfs.NewMem())
	const writers, each = 8, 250
	var wg sync.WaitGroup
	for range 3 {
		r := readerOf(t, s, string(rune('a'+len(s.log.groups))))
		wg.Go(func() {
			var next [partitions]uint64
			last := map[mayfly.ID]mayfly.Generation{}
			for n := 0; n < writers*each; {
				records, err := r.Next(t.Context(), 50)
				if err != nil {
					t.Error(err)
					return
				}
				for _, rec := range records {
					if rec.Offset != next[rec.Partition] {
						t.Errorf("partition %d: offset %d after %d", rec.Partition, rec.Offset, next[rec.Partition])
						return
					}
					next[rec.Partition]++
					if g := rec.Event.Generation; g != last[rec.Event.ID]+1 {
						t.Errorf("%s: generation %d after %d", rec.Event.ID, g, last[rec.Event.ID])
						return
					}
					last[rec.Event.ID]++
				}
				n += len(records)
			}
		})
	}
	for w := range writers {
		wg.Go(func() {
			// Two items of two partitions in each batch, in both orders.
			a, b := event(t, mayfly.Shard(w%3), uint64(w), 1), event(t, mayfly.Shard((w+1)%3), uint64(100+w), 1)
			a.Generation, b.Generation = 0, 0
			for range each / 2 {
				a.Generation++
				b.Generation++
				if err := s.Log().Append(t.Context(), a, b); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestAGroupResumesAfterItsCommitWhenTheStoreIsReopened(t *testing.T) {
	mem := vfs.NewMem()
	s := openMem(t, mem)
	for n := range uint64(40) {
		commit(t, s, func(b *store.Batch) { b.Append(event(t, mayfly.Shard(n%4), n, mayfly.Instant(n))) })
	}
	r := readerOf(t, s, "g")
	if _, err := r.Next(t.Context(), 25); err != nil {
		t.Fatal(err)
	}
	if err := r.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Log().Reader(t.Context(), mayfly.Ends, "g"); !errors.Is(err, mayfly.Conflict) {
		t.Fatalf("a second reader of the group: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openMem(t, mem)
	commit(t, s, func(b *store.Batch) { b.Append(event(t, 1, 99, 99)) })
	if got := drain(t, readerOf(t, s, "g")); len(got) != 16 {
		t.Fatalf("%d records after the commit, want 16", len(got))
	}
}

// TestTrimDeletesOldEventsAndKeepsYoungOnes also when an old event was appended after
// a young one, by single deletions as well as by a range deletion.
func TestTrimDeletesOldEventsAndKeepsYoungOnes(t *testing.T) {
	for _, old := range []int{3, 3 * pointTrim} {
		mem := vfs.NewMem()
		s := openMem(t, mem)
		var list []mayfly.Event
		for n := range old {
			list = append(list, event(t, 5, uint64(n), mayfly.Instant(1+n%7)))
		}
		list = append(list, event(t, 5, 10_001, 100), event(t, 5, 10_002, 2), event(t, 5, 10_003, 101))
		if err := s.Log().Append(t.Context(), list...); err != nil {
			t.Fatal(err)
		}
		slow := readerOf(t, s, "slow")
		if err := s.Log().Trim(t.Context(), 110, 60*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		if got := drain(t, slow); len(got) != 3 || got[0].Event.At != 100 || got[0].Offset != uint64(old) {
			t.Fatalf("after a trim: %+v", got)
		}
		if err := s.Log().Trim(t.Context(), 10_000, time.Millisecond); err != nil {
			t.Fatal(err)
		}
		if got := drain(t, readerOf(t, s, "late")); len(got) != 0 {
			t.Fatalf("everything was trimmed, but the reader gets %+v", got)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = openMem(t, mem)
		commit(t, s, func(b *store.Batch) { b.Append(event(t, 5, 1, 200)) })
		if got := drain(t, readerOf(t, s, "later")); len(got) != 1 || got[0].Offset != uint64(old)+3 {
			t.Fatalf("after a trim of everything and a reopen the offset does not continue: %+v", got)
		}
	}
}
