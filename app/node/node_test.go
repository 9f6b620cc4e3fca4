package node_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/engine/clock"
	"github.com/mayflyhq/mayfly/engine/sweep"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// in runs a test with a store and a machine in a bubble. A goroutine that a node
// leaves behind fails it.
func in(t *testing.T, test func(t *testing.T, set store.Set, m *machine)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		set, closed := open(t)
		defer closed()
		test(t, set, newMachine())
	})
}

func TestANodeServesUntilTheDeadlineAndSweepsAfterIt(t *testing.T) {
	in(t, func(t *testing.T, set store.Set, m *machine) {
		n := start(t, set, node.Options{Source: m.source()})
		defer stop(t, n)
		time.Sleep(20 * time.Second)
		item := mustPublish(t, n, 5*time.Second)
		time.Sleep(5*time.Second - time.Millisecond)
		if err := opens(n, item.ID); err != nil {
			t.Errorf("a millisecond before its deadline: %v", err)
		}
		time.Sleep(time.Millisecond)
		if err := opens(n, item.ID); err != mayfly.Gone {
			t.Errorf("at its deadline: %v", err)
		}
		time.Sleep(2 * time.Second)
		if s := state(t, set, item.ID); s != mayfly.ExpiredHot {
			t.Errorf("two seconds later it is %s", s)
		}
		if e := ends(t, set); e[item.ID] != 1 {
			t.Errorf("%d events", e[item.ID])
		}
		time.Sleep(20 * time.Second)
		if all := n.Progress(sweep.Name); len(all) != mayfly.Shards {
			t.Errorf("%d walkers", len(all))
		} else {
			now := n.Clock().Read().Steady
			for _, p := range all {
				if !p.Held || p.Lag > 2*time.Second || now.Sub(p.Cursor) > 2*time.Second || now.Sub(p.Watermark) > 18*time.Second {
					t.Errorf("%+v at %s", p, now)
				}
			}
		}
	})
}

func TestABacklogIsProcessedAfterAnOutage(t *testing.T) {
	in(t, func(t *testing.T, set store.Set, m *machine) {
		n := start(t, set, node.Options{Source: m.source()})
		var items []mayfly.Item
		for range 50 {
			items = append(items, mustPublish(t, n, 10*time.Minute))
			time.Sleep(time.Second)
		}
		stop(t, n)
		time.Sleep(time.Hour)
		n = start(t, set, node.Options{Source: m.source()})
		defer stop(t, n)
		time.Sleep(5 * time.Second)
		for _, item := range items {
			if s := state(t, set, item.ID); s != mayfly.ExpiredHot {
				t.Fatalf("%s is %s", item.ID, s)
			}
		}
		if e := ends(t, set); len(e) != len(items) {
			t.Errorf("events of %d items", len(e))
		}
	})
}

// While a step of the clock is unconfirmed the gate hides by the stepped time, no walk
// moves, nothing is published and no mark is saved; when the wall clock comes back
// nothing has expired. With a lease of two months the walks still hold their shards by
// the stepped time (L7).
func TestAStepOfTheClockHidesAndEndsNothing(t *testing.T) {
	for _, lease := range []time.Duration{mayfly.DefaultLease, 60 * 24 * time.Hour} {
		in(t, func(t *testing.T, set store.Set, m *machine) {
			n := start(t, set, node.Options{Source: m.source(), Name: "a", Walk: walk.Options{Lease: lease}})
			defer stop(t, n)
			item := mustPublish(t, n, time.Hour)
			time.Sleep(10 * time.Second)
			before := mark(t, set, "a")

			m.step(30 * 24 * time.Hour)
			time.Sleep(time.Minute)
			if err := opens(n, item.ID); err != mayfly.Gone {
				t.Errorf("in doubt: %v", err)
			}
			_, err := publish(n, time.Hour)
			var hinted *mayfly.Error
			if !errors.Is(err, mayfly.Unavailable) || !errors.As(err, &hinted) || hinted.Hint == "" {
				t.Errorf("a birth in doubt: %v", err)
			}
			if s := state(t, set, item.ID); s != mayfly.Active {
				t.Errorf("lease %s: a walk went on in doubt: %s", lease, s)
			}
			if after := mark(t, set, "a"); after.At > before.At.Add(2*time.Second) {
				t.Errorf("a mark was saved in doubt: %s, before it %s", after.At, before.At)
			}

			m.step(-30 * 24 * time.Hour)
			time.Sleep(5 * time.Second)
			if err := opens(n, item.ID); err != nil {
				t.Errorf("the wall is back: %v", err)
			}
			mustPublish(t, n, time.Hour)
			if after := mark(t, set, "a"); after.At < before.At.Add(time.Minute) {
				t.Errorf("no mark since: %s", after.At)
			}
		})
	}
}

func TestAConfirmedStepIsSweptByTheWalks(t *testing.T) {
	for name, confirm := range map[string]func(n *node.Node, m *machine){
		"by an operator": func(n *node.Node, _ *machine) { n.Clock().Confirm() },
		"by the system":  func(_ *node.Node, m *machine) { m.synchronise() },
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, set store.Set, m *machine) {
				n := start(t, set, node.Options{Source: m.source(), Name: "a"})
				defer stop(t, n)
				item := mustPublish(t, n, time.Hour)
				m.step(2 * time.Hour)
				time.Sleep(5 * time.Second)
				if s := state(t, set, item.ID); s != mayfly.Active {
					t.Fatalf("not confirmed, and it is %s", s)
				}
				confirm(n, m)
				time.Sleep(5 * time.Second)
				if s := state(t, set, item.ID); s != mayfly.ExpiredHot {
					t.Errorf("confirmed, and it is %s", s)
				}
				if got := mark(t, set, "a").At; got < item.ID.Birth().Add(2*time.Hour) {
					t.Errorf("the mark stays at %s", got)
				}
			})
		})
	}
}

func TestTimeDoesNotGoBackOverARestart(t *testing.T) {
	in(t, func(t *testing.T, set store.Set, m *machine) {
		n := start(t, set, node.Options{Source: m.source()})
		item := mustPublish(t, n, 10*time.Second)
		time.Sleep(10 * time.Second)
		stop(t, n)
		m.step(-48 * time.Hour)
		n = start(t, set, node.Options{Source: m.source()})
		defer stop(t, n)
		if err := opens(n, item.ID); err != mayfly.Gone {
			t.Errorf("what had expired is back: %v", err)
		}
		if later := mustPublish(t, n, time.Hour); later.ID.Birth() < item.ID.Deadline() {
			t.Errorf("born at %s, before %s", later.ID.Birth(), item.ID.Deadline())
		}
	})
}

func TestAMarkIsSavedSoonAfterACorrection(t *testing.T) {
	in(t, func(t *testing.T, set store.Set, m *machine) {
		o := node.Options{Source: m.source(), Name: "a"}
		o.Clock.SavePeriod = 20 * time.Second
		n := start(t, set, o)
		defer stop(t, n)
		time.Sleep(2 * time.Second)
		m.step(4 * time.Minute) // within the limit: followed at once
		now := n.Clock().Read().Steady
		synctest.Wait()
		if got := mark(t, set, "a").At; got < now {
			t.Errorf("the clock is at %s, its mark at %s", now, got)
		}
	})
}

func TestAStoppedNodeReleasesItsShardsAtOnce(t *testing.T) {
	in(t, func(t *testing.T, set store.Set, m *machine) {
		lease := walk.Options{Lease: time.Hour}
		first := start(t, set, node.Options{Source: m.source(), Name: "a", Walk: lease})
		item := mustPublish(t, first, 30*time.Second)
		stop(t, first)
		second := start(t, set, node.Options{Source: m.source(), Name: "b", Walk: lease})
		defer stop(t, second)
		time.Sleep(35 * time.Second)
		if s := state(t, set, item.ID); s != mayfly.ExpiredHot {
			t.Errorf("no node took over: %s", s)
		}
		if e := ends(t, set); e[item.ID] != 1 {
			t.Errorf("%d events", e[item.ID])
		}
	})
}

// hung is rows of a store that has stopped answering.
type hung struct {
	store.Rows
	from atomic.Bool
}

func (h *hung) wait(ctx context.Context) error {
	if !h.from.Load() {
		return nil
	}
	select {
	case <-ctx.Done():
		return mayfly.Wrap(mayfly.Unavailable, ctx.Err(), "")
	case <-time.After(4 * time.Second): // its own patience
		return mayfly.Errorf(mayfly.Unavailable, "no answer")
	}
}

func (h *hung) Get(ctx context.Context, t store.Table, keys ...store.Key) ([][]byte, error) {
	if err := h.wait(ctx); err != nil {
		return nil, err
	}
	return h.Rows.Get(ctx, t, keys...)
}

func (h *hung) Swap(ctx context.Context, t store.Table, key store.Key, old, after []byte, reclaimAt mayfly.Instant) (bool, []byte, error) {
	if err := h.wait(ctx); err != nil {
		return false, nil, err
	}
	return h.Rows.Swap(ctx, t, key, old, after, reclaimAt)
}

func TestAStopIsNotHeldUpByAStoreThatHangs(t *testing.T) {
	in(t, func(t *testing.T, set store.Set, m *machine) {
		rows := &hung{Rows: set.Rows}
		set.Rows = rows
		n := start(t, set, node.Options{Source: m.source(), Name: "a"})
		mustPublish(t, n, 30*time.Second)
		time.Sleep(10 * time.Second)
		rows.from.Store(true)
		began := time.Now()
		if err := n.Stop(context.Background()); !errors.Is(err, mayfly.Unavailable) {
			t.Errorf("it ends with %v", err)
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("it stops after %s", took)
		}
	})
}

// The fuse of the set is blown here, not that of the store: such a store ends with
// its process and would outlive the bubble.
func TestABlownFuseIsSeenAndAStopLeavesTheStoreAlone(t *testing.T) {
	in(t, func(t *testing.T, set store.Set, m *machine) {
		set.Fuse = store.NewFuse()
		writes := &swaps{Rows: set.Rows}
		set.Rows = writes
		n := start(t, set, node.Options{Source: m.source(), Name: "a", Cadence: time.Hour})
		time.Sleep(time.Second)
		if n.Err() != nil || node.DiskFailed(n.Err()) {
			t.Fatal(n.Err())
		}
		select {
		case <-n.Blown():
			t.Fatal("blown from the start")
		default:
		}
		reason := errors.New("fsync: input/output error")
		set.Fuse.Blow(reason)
		<-n.Blown()
		if err := n.Err(); !errors.Is(err, reason) || !node.DiskFailed(err) || !errors.Is(err, mayfly.Unavailable) {
			t.Errorf("%v", err)
		}
		synctest.Wait()
		before := writes.count.Load()
		stop(t, n)
		if after := writes.count.Load(); after != before {
			t.Errorf("%d writes to a store that cannot keep them", after-before)
		}
	})
}

type swaps struct {
	store.Rows
	count atomic.Int64
}

func (s *swaps) Swap(ctx context.Context, t store.Table, key store.Key, old, new []byte, at mayfly.Instant) (bool, []byte, error) {
	s.count.Add(1)
	return s.Rows.Swap(ctx, t, key, old, new, at)
}

func TestTrimAndReclaimUseTheConfirmedTime(t *testing.T) {
	in(t, func(t *testing.T, set store.Set, m *machine) {
		var mu sync.Mutex
		var reclaims, trims []mayfly.Instant
		note := func(all *[]mayfly.Instant, now mayfly.Instant) {
			mu.Lock()
			defer mu.Unlock()
			*all = append(*all, now)
		}
		set.Log = trimmed{set.Log, func(now mayfly.Instant, keep time.Duration) {
			if keep != 48*time.Hour {
				t.Errorf("events are kept for %s", keep)
			}
			note(&trims, now)
		}}
		n := start(t, set, node.Options{
			Source: m.source(), LogKept: 48 * time.Hour, TrimEvery: 10 * time.Second, ReclaimEvery: 10 * time.Second,
			Reclaim: func(_ context.Context, now mayfly.Instant) error { note(&reclaims, now); return nil },
		})
		defer stop(t, n)
		time.Sleep(time.Minute)
		last := n.Clock().Read().Steady
		m.step(24 * time.Hour) // in doubt
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		for name, all := range map[string][]mayfly.Instant{"trim": trims, "reclaim": reclaims} {
			if len(all) < 6 || len(all) > 8 || all[len(all)-1] > last {
				t.Errorf("%s at %v, the clock was in doubt from %s on", name, all, last)
			}
		}
	})
}

type trimmed struct {
	store.Log
	note func(now mayfly.Instant, keep time.Duration)
}

func (l trimmed) Trim(ctx context.Context, now mayfly.Instant, keep time.Duration) error {
	l.note(now, keep)
	return l.Log.Trim(ctx, now, keep)
}

func TestTheErrorOfALoopIsReportedAndItTriesAgain(t *testing.T) {
	in(t, func(t *testing.T, set store.Set, m *machine) {
		var mu sync.Mutex
		reported := map[string]int{}
		away := &pages{Ledger: set.Ledger}
		set.Ledger = away
		n := start(t, set, node.Options{Source: m.source(), Problem: func(loop string, err error) {
			mu.Lock()
			defer mu.Unlock()
			if errors.Is(err, mayfly.Unavailable) {
				reported[loop]++
			}
		}})
		defer stop(t, n)
		item := mustPublish(t, n, 2*time.Second)
		away.set(mayfly.Errorf(mayfly.Unavailable, "away"))
		time.Sleep(30 * time.Second)
		mu.Lock()
		if reported["sweep"] < 16*5 {
			t.Errorf("reported %v", reported)
		}
		mu.Unlock()
		away.set(nil)
		time.Sleep(6 * time.Second)
		if s := state(t, set, item.ID); s != mayfly.ExpiredHot {
			t.Errorf("it is %s", s)
		}
	})
}

type pages struct {
	store.Ledger
	mu  sync.Mutex
	err error
}

func (p *pages) set(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
}

func (p *pages) Walk(ctx context.Context, s store.Stretch, limit int) ([]mayfly.Item, error) {
	p.mu.Lock()
	err := p.err
	p.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return p.Ledger.Walk(ctx, s, limit)
}

func TestANodeThatCannotStartSaysWhyAndLeavesNothingRunning(t *testing.T) {
	for name, tc := range map[string]struct {
		prepare func(t *testing.T, set *store.Set, o *node.Options)
		want    mayfly.Kind
	}{
		"a mark that cannot be read": {func(t *testing.T, set *store.Set, _ *node.Options) {
			if _, _, err := set.Rows.Swap(t.Context(), clock.MarksTable, store.Key{Partition: "node"}, nil, []byte("?"), 0); err != nil {
				t.Fatal(err)
			}
		}, mayfly.Corrupt},
		"an origin that cannot be read": {func(t *testing.T, set *store.Set, _ *node.Options) {
			if _, _, err := set.Rows.Swap(t.Context(), walk.Watermarks, store.Key{Partition: "origin"}, nil, []byte("?"), 0); err != nil {
				t.Fatal(err)
			}
		}, mayfly.Corrupt},
		"a setting out of range": {func(_ *testing.T, _ *store.Set, o *node.Options) { o.Intake.Timeout = -1 }, mayfly.Invalid},
		"a walk out of range":    {func(_ *testing.T, _ *store.Set, o *node.Options) { o.Walk.Settle = -1 }, mayfly.Invalid},
		"signals that are away": {func(_ *testing.T, set *store.Set, _ *node.Options) {
			set.Signals = deaf{set.Signals}
		}, mayfly.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, set store.Set, m *machine) {
				o := node.Options{Source: m.source()}
				tc.prepare(t, &set, &o)
				if _, err := node.Start(t.Context(), set, o); !errors.Is(err, tc.want) {
					t.Errorf("%v, want %s", err, tc.want)
				}
			})
		})
	}
}

type deaf struct{ store.Signals }

func (deaf) Subscribe(context.Context, func(store.Signal)) (store.Subscription, error) {
	return nil, mayfly.Errorf(mayfly.Unavailable, "away")
}

// Outside of a bubble, on the system's own clock.
func TestAStoppedNodeLeavesNoGoroutine(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	set, closed := open(t)
	defer closed()
	n := start(t, set, node.Options{Cadence: time.Millisecond})
	item := mustPublish(t, n, time.Hour)
	if err := opens(n, item.ID); err != nil {
		t.Error(err)
	}
	stop(t, n)
	stop(t, n) // again is harmless
}
