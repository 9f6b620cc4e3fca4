package kvpebble

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly/store"
)

// Groups write the same number to two keys, and to others so that the cache forgets some.
// A reader must find one number in both, by both ways of reading, and never an older one
// than it has found before.
func TestReadersSeeGroupsAsOneWhileTheCacheForgets(t *testing.T) {
	const readers, rounds = 3, 2_000
	s := openWith(t, Options{FS: vfs.NewMem(), CacheBytes: 2 * mebibyte, Sync: EverySec})
	space := store.KVSpace{Name: "test"}
	pair := func(i int) (string, string) { return fmt.Sprintf("a%d", i%2), fmt.Sprintf("b%d", i%2) }
	source := seeded(t)
	var done atomic.Bool
	var reads atomic.Int64
	var wg sync.WaitGroup
	for n := range readers {
		wg.Go(func() {
			random, last := rand.New(rand.NewPCG(uint64(n), 1)), map[string]int{}
			check := func(e store.KVEntry) int {
				number, err := strconv.Atoi(strings.TrimSpace(string(e.Value)))
				if e.Found && (err != nil || number < last[e.Key]) {
					t.Errorf("%s was %d and is %q, %v", e.Key, last[e.Key], e.Value, err)
				}
				last[e.Key] = max(last[e.Key], number)
				return number
			}
			for !done.Load() && !t.Failed() {
				runtime.Gosched() // on one processor the writer goes on
				reads.Add(1)
				a, b := pair(random.IntN(2))
				found, err := s.Get(t.Context(), space, testNow, a, b)
				if err != nil {
					t.Error(err)
					return
				}
				if x, y := check(found[0]), check(found[1]); x != y {
					t.Errorf("%s is %d and %s is %d", a, x, b, y)
				}
				first, err := s.Get(t.Context(), space, testNow, a)
				if err != nil {
					t.Error(err)
					return
				}
				then, err := s.Get(t.Context(), space, testNow, b)
				if err != nil {
					t.Error(err)
					return
				}
				if x, y := check(first[0]), check(then[0]); y < x {
					t.Errorf("after %d in %s, %s is %d", x, a, b, y)
				}
			}
		})
	}
	for i := range rounds {
		a, b := pair(i)
		value := strconv.Itoa(i) + strings.Repeat(" ", i%5)
		g := store.KVGroup{Ops: []store.KVOp{set(a, value, 0), set(b, value, 0)}}
		for range 8 {
			g.Ops = append(g.Ops, set("other"+strconv.Itoa(source.IntN(20_000)), value, 0))
		}
		if _, err := s.Apply(t.Context(), space, testNow, g); err != nil {
			t.Fatal(err)
		}
	}
	done.Store(true)
	wg.Wait()
	if reads.Load() < rounds/10 {
		t.Errorf("only %d reads beside %d groups", reads.Load(), rounds)
	}
	t.Logf("%d reads beside %d groups", reads.Load(), rounds)
}

func TestTheCacheForgetsWhatWasReclaimed(t *testing.T) {
	s := openWith(t, Options{FS: vfs.NewMem()})
	for i := range 100 {
		apply(t, s, testNow, set(fmt.Sprint("key", i), "value", testNow+minute))
		get(t, s, testNow, fmt.Sprint("key", i))
	}
	later := testNow + 10*minute
	for {
		done, err := s.Reclaim(t.Context(), later)
		if err != nil {
			t.Fatal(err)
		}
		if !done.More {
			break
		}
	}
	apply(t, s, later, set("key1", "new", later+minute))
	if usage, err := s.Usage(t.Context(), later); err != nil || usage.Expired != 0 || usage.Live != 7 {
		t.Errorf("got %+v, %v, want 7 bytes that live and none that have expired", usage, err)
	}
	if err := s.Drop(t.Context(), testSpace); err != nil {
		t.Fatal(err)
	}
	if e := get(t, s, later, "key1"); e.Found {
		t.Errorf("after the drop there is %+v", e)
	}
}

func TestWhatWasReadBeforeAWriteIsNotAddedToTheCache(t *testing.T) {
	var r rows
	r.init(mebibyte)
	const hash, space, key = 5, 1, "key"
	_, changes, quiet := r.get(nil, hash, space, key)
	r.begin([]uint16{hash})
	if row, _, quiet := r.get(nil, hash, space, key); row != nil || quiet {
		t.Errorf("while there is a writer it has %q, %v", row, quiet)
	}
	r.fill(hash, space, key, []byte("old"), changes)
	r.end([]uint16{hash})
	r.fill(hash, space, key, []byte("old"), changes)
	row, changes, _ := r.get(nil, hash, space, key)
	if !quiet || row != nil {
		t.Errorf("it has %q, %v", row, quiet)
	}
	r.fill(hash, space, key, []byte("new"), changes)
	if row, _, _ := r.get(nil, hash, space, key); string(row) != "new" {
		t.Errorf("it has %q", row)
	}
	if row, _, _ := r.get(nil, hash, space, "another key"); row != nil {
		t.Errorf("a key with the same hash has %q", row)
	}
	if row, _, _ := r.get(nil, hash, space+1, key); row != nil {
		t.Errorf("another namespace has %q", row)
	}
}
