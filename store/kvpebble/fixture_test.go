package kvpebble

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

const testNow = mayfly.Instant(1_800_000_000_000)

var testSpace = store.KVSpace{Name: "test", Events: true}

func openWith(t testing.TB, opts Options) *Store {
	t.Helper()
	opts.Dir = "kv"
	s, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil && s.Fuse().Err() == nil {
			t.Error(err)
		}
	})
	return s
}

// seeded returns a random source and logs its seed.
func seeded(t testing.TB) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

func set(key, value string, expiry mayfly.Instant) store.KVOp {
	return store.KVOp{Key: key, Action: store.KVSet, Value: []byte(value), Expiry: expiry}
}

func apply(t testing.TB, s *Store, now mayfly.Instant, ops ...store.KVOp) []store.KVResult {
	t.Helper()
	results, err := s.Apply(t.Context(), testSpace, now, store.KVGroup{Ops: ops})
	if err != nil {
		t.Fatal(err)
	}
	return results
}

func get(t testing.TB, s *Store, now mayfly.Instant, key string) store.KVEntry {
	t.Helper()
	found, err := s.Get(t.Context(), testSpace, now, key)
	if err != nil {
		t.Fatal(err)
	}
	return found[0]
}

// reclaimAll calls Reclaim until there is nothing more to do.
func reclaimAll(t testing.TB, s *Store, now mayfly.Instant) (total store.KVReclaimed) {
	t.Helper()
	for {
		r, err := s.Reclaim(t.Context(), now)
		if err != nil {
			t.Fatal(err)
		}
		total.Entries, total.Bytes, total.Written = total.Entries+r.Entries, total.Bytes+r.Bytes, total.Written+r.Written
		if !r.More {
			return total
		}
	}
}

// checkCounts compares the counts in memory and in the database with the entries.
func checkCounts(t testing.TB, s *Store) {
	t.Helper()
	want := map[string]map[mayfly.Instant]count{}
	iter, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{entryPrefix}, UpperBound: []byte{entryPrefix + 1}})
	if err != nil {
		t.Fatal(err)
	}
	for ok := iter.First(); ok; ok = iter.Next() {
		n, _ := spaceHead(iter.Key())
		e, err := parseEntry(string(iter.Key()[n:]), iter.Value())
		if err != nil {
			t.Fatal(err)
		}
		name, end := string(iter.Key()[2:n]), periodEnd(e.Written, e.Expiry)
		if want[name] == nil {
			want[name] = map[mayfly.Instant]count{}
		}
		want[name][end] = want[name][end].plus(count{1, e.Size()})
	}
	if err := iter.Close(); err != nil {
		t.Fatal(err)
	}
	var stored spaces
	if err := stored.load(s.db); err != nil {
		t.Fatal(err)
	}
	for place, all := range map[string]*spaces{"memory": &s.spaces, "database": &stored} {
		got := map[string]map[mayfly.Instant]count{}
		for _, sp := range all.list() {
			if len(sp.periods) > 0 {
				got[sp.name] = sp.periods
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("counts in the %s\n got %v\nwant %v", place, got, want)
		}
	}
}

const minute = mayfly.Instant(time.Minute / time.Millisecond)
