package kvpebble

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/pace"
)

// state is what a key must hold: the value of its last acknowledged write, "" after a
// delete, or that of the write under way.
type state struct {
	value, trying   string
	expiry, tryingE mayfly.Instant
	version         uint64
	busy            bool
}

func at(value string, expiry, now mayfly.Instant) string {
	if expiry != 0 && expiry <= now {
		return ""
	}
	return value
}

type knowledge struct {
	now  mayfly.Instant
	keys map[string]state
}

type journal struct {
	mu   sync.Mutex
	now  atomic.Int64
	keys map[string]state
}

// copy returns what is known and lets nothing be noted until the journal is unlocked:
// workers that write on between it and the copy of the disk would leave more there.
func (j *journal) copy() knowledge {
	j.mu.Lock()
	return knowledge{mayfly.Instant(j.now.Load()), maps.Clone(j.keys)}
}

func (j *journal) note(key string, change func(*state)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	st := j.keys[key]
	change(&st)
	j.keys[key] = st
}

// write does one random write of a key that no other worker writes.
func (j *journal) write(t *testing.T, s *Store, r *rand.Rand, key string, n int) {
	now := mayfly.Instant(j.now.Add(int64(r.IntN(4000))))
	o := set(key, fmt.Sprintf("%d %s", n, strings.Repeat("v", r.IntN(400))), 0)
	switch r.IntN(6) {
	case 0:
		o = store.KVOp{Key: key, Action: store.KVDelete}
	case 1, 2, 3:
		o.Expiry = now + mayfly.Instant(1+r.IntN(200_000))
	}
	j.note(key, func(st *state) { st.trying, st.tryingE, st.busy = string(o.Value), o.Expiry, true })
	results, err := s.Apply(t.Context(), testSpace, now, store.KVGroup{Ops: []store.KVOp{o}})
	if err != nil {
		t.Error(err)
		return
	}
	j.note(key, func(st *state) {
		st.value, st.expiry, st.busy = st.trying, st.tryingE, false
		st.version = max(st.version, results[0].New.Version)
	})
}

// TestAcknowledgedWritesSurvivePowerLoss lets workers write while another reclaims,
// copies the disk as a power loss would leave it before every k-th write of a file, and
// opens each copy.
func TestAcknowledgedWritesSurvivePowerLoss(t *testing.T) {
	pace.Heavy(t, "hundreds of crashes")
	source := seeded(t)
	crashes := storetest.Crashes[knowledge]{Disk: vfs.NewCrashableMem(), RNG: rand.New(rand.NewPCG(source.Uint64(), 0)), Every: 6}
	s := openWith(t, Options{FS: crashes.FS(), MemtableBytes: 64 << 10, CacheBytes: 1 << 20})
	j := &journal{keys: map[string]state{}}
	j.now.Store(int64(testNow))
	crashes.Done = j.mu.Unlock
	crashes.On(j.copy)
	var writers, reclaimer sync.WaitGroup
	for w := range 4 {
		r := rand.New(rand.NewPCG(source.Uint64(), 0))
		writers.Go(func() {
			for n := range 1500 {
				j.write(t, s, r, fmt.Sprintf("%02d of %d", r.IntN(40), w), n)
			}
		})
	}
	stop := make(chan struct{})
	var reclaimed, rewrites int64
	reclaimer.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			r, err := s.Reclaim(t.Context(), mayfly.Instant(j.now.Load()))
			if err != nil {
				t.Error(err)
				return
			}
			if r.Entries > 0 {
				rewrites++
			}
			if reclaimed += r.Entries; n%50 == 0 {
				if _, err := s.db.AsyncFlush(); err != nil {
					t.Error(err)
				}
			}
			time.Sleep(time.Millisecond) // a file system that copies itself is slow enough
		}
	})
	writers.Wait()
	close(stop)
	reclaimer.Wait()
	copies, ops := crashes.Off()
	states := map[string]bool{}
	checked := 0
	for _, c := range copies {
		checked += len(c.Known.keys)
		states[survived(t, c)] = true
	}
	t.Logf("%d operations on files, %d power losses, %d distinct states, %d keys checked, %d rewrites took %d entries back", ops, len(copies), len(states), checked, rewrites, reclaimed)
	if len(copies) < 100 || len(states) < 50 || rewrites < 20 || reclaimed < 100 {
		t.Error("too few power losses, states or rewrites to prove anything")
	}
}

// survived opens the disk after a power loss, checks it, and returns a name for the
// state that it found.
func survived(t *testing.T, c storetest.Crash[knowledge]) string {
	s, err := Open(Options{FS: c.FS, Dir: "kv", MemtableBytes: 64 << 10})
	if err != nil {
		t.Fatalf("%s: %v", c, err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	var found strings.Builder
	later := c.Known.now.Add(24 * time.Hour)
	for round, now := range []mayfly.Instant{c.Known.now, later, later} {
		for key, st := range c.Known.keys {
			e := get(t, s, now, key)
			got := string(e.Value)
			if got != at(st.value, st.expiry, now) && (!st.busy || got != at(st.trying, st.tryingE, now)) {
				t.Errorf("%s: round %d: key %q holds %.20q, acknowledged was %.20q until %d, tried %t %.20q", c, round, key, got, st.value, st.expiry-now, st.busy, st.trying)
			}
			if round == 0 {
				fmt.Fprint(&found, key, e.Version)
			}
		}
		checkCounts(t, s)
		if round == 1 {
			reclaimAll(t, s, later)
		}
	}
	for key, st := range c.Known.keys { // versions go on growing
		if r := apply(t, s, later, set(key, "new", 0))[0]; r.New.Version <= st.version {
			t.Errorf("%s: key %q has version %d after %d", c, key, r.New.Version, st.version)
		}
	}
	return found.String()
}

// TestAfterPowerLossDuringTheFirstOpenTheStoreOpens copies the disk before every write
// of the first start.
func TestAfterPowerLossDuringTheFirstOpenTheStoreOpens(t *testing.T) {
	crashes := storetest.Crashes[int]{Disk: vfs.NewCrashableMem(), RNG: seeded(t)}
	crashes.On(func() int { return 0 })
	openWith(t, Options{FS: crashes.FS(), MemtableBytes: 64 << 10})
	copies, _ := crashes.Off()
	for _, c := range copies {
		s := openWith(t, Options{FS: c.FS, MemtableBytes: 64 << 10})
		apply(t, s, testNow, set("k", "v", 0))
	}
	t.Logf("%d power losses", len(copies))
	if len(copies) < 20 {
		t.Error("too few power losses to prove anything")
	}
}
