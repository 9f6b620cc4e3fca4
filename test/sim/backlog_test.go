package sim

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/engine/archive"
	"github.com/mayflyhq/mayfly/engine/clock"
	"github.com/mayflyhq/mayfly/engine/sweep"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/fixture"
	"github.com/mayflyhq/mayfly/test/pace"
)

// slowLedger takes time for every transition, as a store with much to do does,
// and writes down in which order rows were ended.
type slowLedger struct {
	store.Ledger
	each time.Duration

	mu    sync.Mutex
	last  map[mayfly.Shard]mayfly.Instant // the newest deadline that was expired, by shard
	ended map[mayfly.State]int
	order int // expiries that came before an older one of their shard
}

func (l *slowLedger) Transition(ctx context.Context, changes []mayfly.Change) ([]store.Outcome, error) {
	time.Sleep(time.Duration(len(changes)) * l.each)
	outcomes, err := l.Ledger.Transition(ctx, changes)
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, o := range outcomes {
		if o.Result != store.Applied {
			continue
		}
		l.ended[changes[i].To]++
		if changes[i].To != mayfly.ExpiredHot {
			continue
		}
		shard, deadline := changes[i].ID.Shard(), changes[i].ID.Deadline()
		if deadline < l.last[shard] {
			l.order++
		}
		l.last[shard] = max(l.last[shard], deadline)
	}
	return outcomes, err
}

func (l *slowLedger) count(s mayfly.State) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended[s]
}

// After a day's outage the walks catch up oldest first, in bounded memory, and
// say when they will be done (L5).
func TestADayOfOutageIsWorkedOffOldestFirst(t *testing.T) {
	pace.Heavy(t, "a day of expiries")
	const items, away = 8_000, 24 * time.Hour
	synctest.Test(t, func(t *testing.T) {
		db, hot, set, err := openSet(vfs.NewMem(), 0)
		if err != nil {
			t.Fatal(err)
		}
		cold, err := openTier(vfs.NewMem(), "cold", set.Fuse, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			for _, c := range []interface{ Close() error }{cold, hot, db} {
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}
		}()
		set.Cold, set.Signals = cold, &fixture.Signals{}
		slow := &slowLedger{Ledger: set.Ledger, each: 20 * time.Millisecond, last: map[mayfly.Shard]mayfly.Instant{}, ended: map[mayfly.State]int{}}
		set.Ledger = slow
		hands := clock.NewManual(genesis)
		begin := func() *node.Node {
			n, err := node.Start(t.Context(), set, node.Options{Source: hands.Source(), Problem: func(loop string, err error) { t.Errorf("%s: %v", loop, err) }})
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		live := func(d time.Duration) {
			for ; d > 0; d -= time.Second {
				hands.Advance(time.Second)
				time.Sleep(time.Second)
			}
		}
		n := begin()
		if err := n.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		loadDay(t, set, seed(t), items, away)
		hands.Reboot(away)
		n = begin()

		lag := func(walk string) (lag time.Duration, eta time.Duration) {
			for _, p := range n.Progress(walk) {
				lag, eta = max(lag, p.Lag), max(eta, p.ETA)
			}
			return lag, eta
		}
		var promised, took time.Duration
		var heap []uint64
		for took < 4*time.Hour && slow.count(mayfly.Cold) < items {
			live(10 * time.Second)
			if promised == 0 && slow.count(mayfly.ExpiredHot) > items/4 {
				if _, promised = lag(sweep.Name); promised > 0 {
					took = 0
				}
			}
			if int(took/time.Second)%60 == 0 {
				var m runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&m)
				heap = append(heap, m.HeapAlloc)
			}
			took += 10 * time.Second
			if l, _ := lag(sweep.Name); promised > 0 && l < 3*time.Second && slow.count(mayfly.ExpiredHot) == items {
				storetest.Proof(t, "backlog", "promised, kept", []time.Duration{promised, took})
				if took > 2*promised || took < promised/2-10*time.Second {
					t.Errorf("a quarter into the backlog it promised to be done in %s; it took %s", promised, took)
				}
				promised = -1
			}
		}
		if promised != -1 || slow.count(mayfly.ExpiredHot) != items || slow.count(mayfly.Cold) != items {
			l, _ := lag(archive.Name)
			t.Errorf("%d of %d expired, %d cold, promise %s, the archive is %s behind", slow.count(mayfly.ExpiredHot), items, slow.count(mayfly.Cold), promised, l)
		}
		if slow.order > 0 {
			t.Errorf("%d items were expired before older ones of their shard", slow.order)
		}
		if first, last := heap[len(heap)/4], heap[len(heap)-1]; last > first+16<<20 {
			t.Errorf("the heap grew from %d to %d MiB while the backlog was worked off", first>>20, last>>20)
		}
		if f := n.Found(); f.Total() != 0 {
			t.Errorf("reconcile found %+v in a healthy backlog", f)
		}
		storetest.Proof(t, "backlog", "items expired and archived, oldest first", items)
		now := n.Clock().Read().Steady
		if err := n.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		atRest(t, set, now)
	})
}

// loadDay puts items with deadlines all over the day after genesis into the store.
func loadDay(t *testing.T, set store.Set, seed uint64, items int, day time.Duration) {
	t.Helper()
	rng := seeded(seed)
	hour, err := lifetimeOf(time.Hour.Milliseconds())
	if err != nil {
		t.Fatal(err)
	}
	var b store.Batch
	for i := range items {
		deadline := genesis.Add(time.Minute + time.Duration(rng.Int64N(int64(day-2*time.Minute))))
		id, err := mayfly.NewID(deadline.Add(-time.Hour), hour, mayfly.Trace(rng.Uint32N(1024)), rng.Uint64())
		if err != nil {
			t.Fatal(err)
		}
		b.Insert(store.Birth{Item: mayfly.Item{
			ID: id, Product: mayfly.Story, Fate: mayfly.Archive, Audience: mayfly.Everyone,
			State: mayfly.Active, Generation: mayfly.Born, Nonce: 1, Changed: id.Birth(),
		}, Body: mayfly.Body{Text: "a day away"}})
		if i%1000 == 999 || i == items-1 {
			if err := set.Writer.Commit(t.Context(), &b); err != nil {
				t.Fatal(err)
			}
			b = store.Batch{}
		}
	}
}
