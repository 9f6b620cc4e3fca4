package storetest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/pace"
)

const (
	histories  = 60
	operations = 50 // in a history, about
	leastTried = 10 // how often each kind of operation must be tried
)

// Random does the same random operations on the driver and on the Model, and compares
// all results. It logs its seed, which -rapid.seed takes.
func Random(t *testing.T, driver string, open Open) {
	t.Helper()
	seed := seedRapid(t)
	set := open(t)
	tried := map[string]int{}
	readers := map[mayfly.Stream]store.Reader{}
	for _, stream := range []mayfly.Stream{mayfly.Births, mayfly.Ends} {
		r, err := set.Log.Reader(t.Context(), stream, freshName("random"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.Close() })
		readers[stream] = r
	}
	rapid.Check(t, func(rt *rapid.T) {
		h := newHistory(rt, t.Context(), set, readers)
		kinds := map[string]func(*rapid.T){}
		for name, act := range h.kinds() {
			kinds[name] = func(rt *rapid.T) {
				h.t = rt
				act()
				tried[name]++ // not reached when the operation called Skip
			}
		}
		rt.Repeat(kinds)
		h.t = rt
		h.readAll()
	})
	total := 0
	for _, name := range slices.Sorted(maps.Keys(tried)) {
		total += tried[name]
		t.Logf("%6d × %s", tried[name], name)
	}
	for name := range (&history{}).kinds() {
		if tried[name] < pace.Least(leastTried) {
			t.Errorf("%s was tried %d times, want at least %d", name, tried[name], pace.Least(leastTried))
		}
	}
	Proof(t, "random operations on "+driver, "operations", total)
	Proof(t, "random operations on "+driver, "kinds", len(tried))
	Proof(t, "random operations on "+driver, "seed", seed)
}

// seedRapid sets the flags of rapid, where a seed on the command line wins, and resets
// them after the test.
func seedRapid(t *testing.T) uint64 {
	t.Helper()
	seed, _ := strconv.ParseUint(flag.Lookup("rapid.seed").Value.String(), 10, 64)
	if seed == 0 {
		seed = rand.Uint64() | 1
	}
	for name, value := range map[string]string{
		"rapid.seed": fmt.Sprint(seed), "rapid.checks": fmt.Sprint(histories),
		"rapid.steps": fmt.Sprint(operations), "rapid.nofailfile": "true",
	} {
		f := flag.Lookup(name)
		old := f.Value.String()
		if err := f.Value.Set(value); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Value.Set(old) })
	}
	t.Logf("seed %d: run again with -rapid.seed=%d", seed, seed)
	return seed
}

// history is one run of random operations on the driver and the model, with its own
// names. Names depend only on drawn values, except for the minute of its items and the
// random bytes that its partitions begin with.
type history struct {
	t       *rapid.T
	ctx     context.Context
	real    store.Set
	model   store.Set
	oracle  *Model
	readers map[mayfly.Stream]store.Reader
	read    map[mayfly.Stream][]mayfly.Event // what the driver's readers returned for this history

	hole       hole
	eternity   mayfly.Instant // about the birth of its items that never expire
	births     []store.Birth
	removed    map[mayfly.ID]bool
	partitions []string
	unread     map[mayfly.Stream]int
}

func newHistory(t *rapid.T, ctx context.Context, set store.Set, readers map[mayfly.Stream]store.Reader) *history {
	m := NewModel()
	h := &history{
		t: t, ctx: ctx, real: set, model: m.Set(), oracle: m, readers: readers, read: map[mayfly.Stream][]mayfly.Event{},
		hole: freshHole(), eternity: freshID(day, freshUser()).Birth(), removed: map[mayfly.ID]bool{}, unread: map[mayfly.Stream]int{},
	}
	base := freshKey("").Partition
	for _, tail := range []string{"", "\x00", "\xff"} {
		h.partitions = append(h.partitions, base+tail)
	}
	return h
}

// kinds returns the kinds of operation.
func (h *history) kinds() map[string]func() {
	return map[string]func(){
		"insert":                      h.insert,
		"insert again":                h.insertAgain,
		"transition":                  h.transition,
		"transition that is stale":    h.transitionStale,
		"transition of several":       h.transitionSeveral,
		"transition of nothing":       h.transitionMissing,
		"get":                         h.get,
		"body":                        h.body,
		"walk":                        h.walk,
		"walk in pages":               h.walkPages,
		"eternal":                     h.eternal,
		"remove":                      h.remove,
		"put":                         h.put,
		"delete":                      h.delete,
		"drop":                        h.drop,
		"batch of stages":             h.stages,
		"batch that is invalid":       h.invalid,
		"swap":                        h.swap,
		"swap that expects otherwise": h.swapWrong,
		"get rows":                    h.getRows,
		"range":                       h.readRange,
		"append":                      h.append,
		"read":                        h.readAll,
	}
}

func (h *history) same(what string, real, model any, realErr, modelErr error) {
	h.t.Helper()
	if got, want := kindOf(realErr), kindOf(modelErr); got != want {
		h.t.Fatalf("%s: the driver returns %v, the model %v", what, realErr, modelErr)
	}
	if got, want := fmt.Sprintf("%+v", real), fmt.Sprintf("%+v", model); got != want {
		h.t.Fatalf("%s\ndriver %s\n model %s", what, got, want)
	}
}

// kindOf returns the kind of an error, by which errors are compared; 0 is no error.
func kindOf(err error) mayfly.Kind {
	if err == nil {
		return 0
	}
	for _, k := range mayfly.Kinds() {
		if errors.Is(err, k) {
			return k
		}
	}
	return mayfly.Unknown
}
