package pebblestore

import (
	"context"
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
	id := newID(t, testBirth, hours(t, "24h"), mayfly.UserID{}, n<<4|uint64(shard))
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

// drain reads what is there and not more.
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

// TestReadersSkipNothingWhileManyAppend: numbers are dense and seen in order,
// and the events of one writer come in the order in which it appended them.
func TestReadersSkipNothingWhileManyAppend(t *testing.T) {
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
			// Two items a batch, of two partitions, named in either order.
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

func TestNextWaitsForAnEventAndEndsWithItsContext(t *testing.T) {
	s := openMem(t, vfs.NewMem())
	r := readerOf(t, s, "g")
	got := make(chan []store.Record)
	go func() {
		records, err := r.Next(t.Context(), 5)
		if err != nil {
			t.Error(err)
		}
		got <- records
	}()
	commit(t, s, func(b *store.Batch) { b.Append(event(t, 2, 1, 5)) })
	if records := <-got; len(records) != 1 || records[0].Partition != 2 {
		t.Fatalf("%+v", records)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Next(ctx, 5); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func TestGroupReadsOnBehindItsCommitAfterAReopen(t *testing.T) {
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
		t.Fatalf("%d records behind the commit, want 16", len(got))
	}
}

// TestTrimForgetsTheOldAndNeverAYoungerOne, also when an old event was appended
// behind a young one, and by points as well as by range.
func TestTrimForgetsTheOldAndNeverAYoungerOne(t *testing.T) {
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
			t.Fatalf("all was trimmed, and there is %+v", got)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = openMem(t, mem)
		commit(t, s, func(b *store.Batch) { b.Append(event(t, 5, 1, 200)) })
		if got := drain(t, readerOf(t, s, "later")); len(got) != 1 || got[0].Offset != uint64(old)+3 {
			t.Fatalf("numbers go on after a trim of everything and a reopen: %+v", got)
		}
	}
}

func TestSeekFindsTheFirstEventAtOrAfterAnInstant(t *testing.T) {
	s := openMem(t, vfs.NewMem())
	for _, at := range []mayfly.Instant{10, 20, 15, 30, 30, 5, 40} {
		if err := s.Log().Append(t.Context(), event(t, 1, uint64(at), at)); err != nil {
			t.Fatal(err)
		}
	}
	r := readerOf(t, s, "g")
	for at, want := range map[mayfly.Instant]int{0: 7, 10: 7, 11: 6, 20: 6, 21: 4, 30: 4, 31: 1, 40: 1, 41: 0} {
		if err := r.Seek(t.Context(), at); err != nil {
			t.Fatal(err)
		}
		if got := drain(t, r); len(got) != want {
			t.Errorf("seek to %d: %d records, want %d", at, len(got), want)
		}
	}
}
