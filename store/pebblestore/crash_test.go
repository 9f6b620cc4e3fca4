package pebblestore

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/pace"
	"github.com/mayflyhq/mayfly/test/tables"
)

// history records what was tried and what was acknowledged.
type history struct {
	mu      sync.Mutex
	tried   map[mayfly.ID]store.Birth
	born    map[mayfly.ID]bool
	moved   map[mayfly.ID]mayfly.Nonce
	logged  map[mayfly.EventKey]bool
	swapped map[int]uint64
}

func newHistory() *history {
	return &history{
		tried: map[mayfly.ID]store.Birth{}, born: map[mayfly.ID]bool{}, moved: map[mayfly.ID]mayfly.Nonce{},
		logged: map[mayfly.EventKey]bool{}, swapped: map[int]uint64{},
	}
}

func (d *history) note(write func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	write()
}

func (d *history) copy() *history {
	d.mu.Lock()
	defer d.mu.Unlock()
	return &history{
		tried: maps.Clone(d.tried), born: maps.Clone(d.born), moved: maps.Clone(d.moved),
		logged: maps.Clone(d.logged), swapped: maps.Clone(d.swapped),
	}
}

// powerLoss is what the disk may hold after a power loss, and what had been
// acknowledged before it.
type powerLoss struct {
	fs      *vfs.MemFS
	history *history
}

// TestAcknowledgedWritesSurvivePowerLoss lets workers write, copies the disk as a
// power loss would leave it before every k-th write, and opens each copy.
func TestAcknowledgedWritesSurvivePowerLoss(t *testing.T) {
	pace.Heavy(t, "thousands of crashes, one goroutine at a time")
	source := seeded(t)
	r := rand.New(rand.NewPCG(source.Uint64(), 0)) // under mu
	mem := vfs.NewCrashableMem()
	d := newHistory()
	var mu sync.Mutex
	var losses []powerLoss
	ops, next := 0, 1
	fs := injected(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if !writes(op) {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		if ops++; ops >= next && len(losses) < 150 {
			next = ops + 1 + r.IntN(8)
			acknowledged := d.copy() // copied before the disk is, so that the disk must hold all of it
			losses = append(losses, powerLoss{history: acknowledged, fs: mem.CrashClone(vfs.CrashCloneCfg{
				UnsyncedDataPercent: []int{0, 50, 100}[r.IntN(3)], RNG: rand.New(rand.NewPCG(r.Uint64(), 0)),
			})})
		}
		return nil
	}))
	s := openWith(t, Options{FS: fs, Dir: "db", MemtableBytes: 64 << 10})
	var wg sync.WaitGroup
	for w := range 6 {
		worker := rand.New(rand.NewPCG(source.Uint64(), 0))
		wg.Go(func() {
			for n := range 120 {
				live(t, s, d, w, uint64(n), birth(t, worker, testBirth+mayfly.Instant(n), "1h"))
			}
		})
	}
	wg.Wait()
	acks := 0
	states := map[string]bool{}
	for n, loss := range losses {
		acks += len(loss.history.born) + len(loss.history.moved) + len(loss.history.logged)
		states[survived(t, n, loss)] = true
	}
	t.Logf("%d power losses, %d distinct states, %d acknowledgements checked", len(losses), len(states), acks)
	if len(losses) < 100 || len(states) < 50 || acks < 1000 {
		t.Error("too few power losses, states or acknowledgements to prove anything")
	}
}

// live creates and expires one story as worker w does: birth, transition, event, swap.
func live(t *testing.T, s *Store, d *history, w int, n uint64, one store.Birth) {
	d.note(func() { d.tried[one.Item.ID] = one })
	created := mayfly.EventOf(one.Item, mayfly.WasCreated)
	var b store.Batch
	b.Put(engine.Owners, ownerKey(one.Item), []byte("v"), 0)
	b.Then()
	b.Insert(one)
	b.Then()
	b.Append(created)
	if err := s.Writer().Commit(t.Context(), &b); err != nil {
		t.Error(err)
	}
	d.note(func() { d.born[one.Item.ID], d.logged[created.Key()] = true, true })
	out, err := s.Ledger().Transition(t.Context(), []mayfly.Change{expire(one.Item, mayfly.Nonce(n)+1)})
	if err != nil || out[0].Result != store.Applied {
		t.Error(out, err)
	}
	d.note(func() { d.moved[one.Item.ID] = mayfly.Nonce(n) + 1 })
	expired := mayfly.EventOf(out[0].Current, mayfly.WasExpired)
	if err := s.Log().Append(t.Context(), expired); err != nil {
		t.Error(err)
	}
	d.note(func() { d.logged[expired.Key()] = true })
	var old []byte
	if n > 0 {
		old = binary.BigEndian.AppendUint64(nil, n)
	}
	key := store.Key{Partition: fmt.Sprint("worker ", w)}
	if ok, current, err := s.Rows().Swap(t.Context(), walk.Watermarks, key, old, binary.BigEndian.AppendUint64(nil, n+1), 0); !ok || err != nil {
		t.Error(ok, current, err)
	}
	d.note(func() { d.swapped[w] = n + 1 })
}

func ownerKey(item mayfly.Item) store.Key {
	return store.Key{Partition: string(item.Owner[:]), Clustering: string(item.ID[:])}
}

// survived opens the disk after a power loss, checks it against the history, and
// returns a name for the state that it found.
func survived(t *testing.T, n int, loss powerLoss) string {
	s, err := Open(Options{Tables: tables.All(), FS: loss.fs, Dir: "db"})
	if err != nil {
		t.Fatalf("power loss %d: %v", n, err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	d := loss.history
	logged := map[mayfly.EventKey]int{}
	for _, stream := range []mayfly.Stream{mayfly.Births, mayfly.Ends} {
		reader, err := s.Log().Reader(t.Context(), stream, "check")
		if err != nil {
			t.Fatal(err)
		}
		for _, rec := range drain(t, reader) {
			logged[rec.Event.Key()]++
		}
	}
	for key := range d.logged {
		if logged[key] != 1 {
			t.Errorf("power loss %d: event %v is in the log %d times", n, key, logged[key])
		}
	}
	rows, moved := 0, 0
	for id, one := range d.tried {
		item, there := found(t, s, id)
		bodies, err := s.Ledger().Body(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		owned, err := s.Rows().Get(t.Context(), engine.Owners, ownerKey(one.Item))
		if err != nil {
			t.Fatal(err)
		}
		event := logged[mayfly.EventOf(one.Item, mayfly.WasCreated).Key()] == 1
		if there != bodies[0].Found || there != (owned[0] != nil) || there != event {
			t.Errorf("power loss %d: %s was written in part: row %t, body %t, index %t, event %t", n, id, there, bodies[0].Found, owned[0] != nil, event)
		}
		if d.born[id] && !there {
			t.Errorf("power loss %d: LOST %s", n, id)
		}
		if nonce, ok := d.moved[id]; ok && (item.State != mayfly.ExpiredHot || item.Nonce != nonce) {
			t.Errorf("power loss %d: RESURRECTED %s: %+v", n, id, item)
		}
		if there {
			rows++
		}
		if item.State == mayfly.ExpiredHot {
			moved++
		}
	}
	var marks uint64
	for w, at := range d.swapped {
		values, err := s.Rows().Get(t.Context(), walk.Watermarks, store.Key{Partition: fmt.Sprint("worker ", w)})
		if err != nil || len(values[0]) != 8 || binary.BigEndian.Uint64(values[0]) < at {
			t.Errorf("power loss %d: swap %d of worker %d is lost: %x, %v", n, at, w, values, err)
			continue
		}
		marks += binary.BigEndian.Uint64(values[0])
	}
	return fmt.Sprint(rows, moved, len(logged), marks)
}

// TestAfterPowerLossDuringTheFirstOpenTheStoreOpens copies the disk before every
// write of the first start.
func TestAfterPowerLossDuringTheFirstOpenTheStoreOpens(t *testing.T) {
	pace.Heavy(t, "thousands of crashes, one goroutine at a time")
	source := seeded(t)
	tried := 0
	for range 6 {
		mem := vfs.NewCrashableMem()
		var clones []*vfs.MemFS
		var mu sync.Mutex
		fs := injected(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if writes(op) {
				mu.Lock()
				defer mu.Unlock()
				clones = append(clones, mem.CrashClone(vfs.CrashCloneCfg{
					UnsyncedDataPercent: []int{0, 25, 50, 75, 100}[source.IntN(5)], RNG: rand.New(rand.NewPCG(source.Uint64(), 0)),
				}))
			}
			return nil
		}))
		openWith(t, Options{FS: fs, Dir: "db", MemtableBytes: 64 << 10})
		mu.Lock()
		taken := clones
		mu.Unlock()
		for n, clone := range taken {
			tried++
			s, err := Open(Options{Tables: tables.All(), FS: clone, Dir: "db", MemtableBytes: 64 << 10})
			if err != nil {
				t.Fatalf("power loss %d: %v", n, err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("%d power losses", tried)
	if tried < 200 {
		t.Error("too few power losses to prove anything")
	}
}
