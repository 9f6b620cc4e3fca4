package node_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/engine/clock"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/fixture"
)

var (
	ana = mayfly.UserOf("test", "ana")
	ben = mayfly.UserOf("test", "ben")
)

// open opens the embedded store in memory, without a deletion ledger; call closed
// after the node was stopped.
func open(t testing.TB) (set store.Set, closed func()) {
	t.Helper()
	set, closeSet, err := fixture.OpenSet(vfs.NewMem())
	must(t, err)
	set.Deletions, set.Limits = nil, nil
	return set, func() {
		if err := closeSet(); err != nil && set.Fuse.Err() == nil {
			t.Error(err)
		}
	}
}

// machine is a computer whose wall clock can be stepped. Its time is the time of the
// bubble in which the test runs.
type machine struct {
	mu     sync.Mutex
	off    time.Duration // how far the wall clock is ahead of the bubble's time
	synced bool
	boot   time.Time
}

func newMachine() *machine { return &machine{boot: time.Now()} }

func (m *machine) source() clock.Source {
	return clock.Source{
		Read: func() clock.Moment {
			m.mu.Lock()
			defer m.mu.Unlock()
			now := time.Now()
			return clock.Moment{Wall: now.Add(m.off).UnixNano(), Boot: now.Sub(m.boot)}
		},
		BootID: "boot",
		Synchronised: func() bool {
			m.mu.Lock()
			defer m.mu.Unlock()
			return m.synced
		},
	}
}

func (m *machine) step(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.off, m.synced = m.off+d, false
}

func (m *machine) synchronise() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.synced = true
}

func start(t testing.TB, set store.Set, o node.Options) *node.Node {
	t.Helper()
	n, err := node.Start(context.Background(), set, o)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func stop(t testing.TB, n *node.Node) {
	t.Helper()
	if err := n.Stop(context.Background()); err != nil {
		t.Error(err)
	}
}

// publish publishes a story of ana with a lifetime.
func publish(n *node.Node, lifetime time.Duration) (mayfly.Item, error) {
	l, err := mayfly.LifetimeOf(lifetime)
	if err != nil {
		return mayfly.Item{}, err
	}
	p, err := n.Intake().Publish(context.Background(), intake.Draft{
		Owner: ana, Product: mayfly.Story, Fate: mayfly.Archive, Audience: mayfly.Everyone, Lifetime: l, Text: "sea",
	}, n.Clock().Read().Steady)
	return p.Item, err
}

func mustPublish(t testing.TB, n *node.Node, lifetime time.Duration) mayfly.Item {
	t.Helper()
	item, err := publish(n, lifetime)
	if err != nil {
		t.Fatal(err)
	}
	return item
}

// opens returns the error that ben gets when he opens an item now.
func opens(n *node.Node, id mayfly.ID) error {
	_, err := n.Gate().Open(context.Background(), id, mayfly.ViewerOf(ben), n.Clock().Read().Now)
	return err
}

func state(t testing.TB, set store.Set, id mayfly.ID) mayfly.State {
	t.Helper()
	found, err := set.Ledger.Get(context.Background(), id)
	if err != nil || !found[0].Found {
		t.Fatalf("%+v, %v", found, err)
	}
	return found[0].Item.State
}

func mark(t testing.TB, set store.Set, name string) clock.Mark {
	t.Helper()
	m, err := clock.Load(context.Background(), set.Rows, name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// ends returns how many events of the stream of ends each item has.
func ends(t testing.TB, set store.Set) map[mayfly.ID]int {
	t.Helper()
	ctx := context.Background()
	r, err := set.Log.Reader(ctx, mayfly.Ends, "test")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	count := map[mayfly.ID]int{}
	for {
		lag, err := r.Lag(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if lag == 0 {
			return count
		}
		records, err := r.Next(ctx, 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, record := range records {
			count[record.Event.ID]++
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
