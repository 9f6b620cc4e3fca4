package node_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/engine/clock"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/diskstore"
	"github.com/mayflyhq/mayfly/store/memstore"
	"github.com/mayflyhq/mayfly/store/pebblestore"
	"github.com/mayflyhq/mayfly/test/tables"
)

var (
	ana = mayfly.UserOf("test", "ana")
	ben = mayfly.UserOf("test", "ben")
)

// open is the embedded store on memory; close it after the node was stopped.
func open(t testing.TB) (set store.Set, closed func()) {
	t.Helper()
	fs, fuse := vfs.NewMem(), store.NewFuse()
	db, err := pebblestore.Open(pebblestore.Options{Tables: tables.All(), FS: fs, Dir: "db", Fuse: fuse, MemtableBytes: 1 << 20, CacheBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	hot, err := diskstore.Open(diskstore.Options{FS: fs, Dir: "hot", Fuse: fuse, MemtableBytes: 1 << 20, CacheBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	cold, err := diskstore.Open(diskstore.Options{FS: fs, Dir: "cold", Fuse: fuse, MemtableBytes: 1 << 20, CacheBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	set = store.Set{Writer: db.Writer(), Ledger: db.Ledger(), Rows: db.Rows(), Log: db.Log(), Hot: hot, Cold: cold, Signals: memstore.NewSignals(), Fuse: fuse}
	return set, func() {
		if err := errors.Join(cold.Close(), hot.Close(), db.Close()); err != nil && fuse.Err() == nil {
			t.Error(err)
		}
	}
}

// machine is a computer whose wall clock can be stepped. Its time is that of the
// bubble that the test runs in.
type machine struct {
	mu     sync.Mutex
	off    time.Duration // of the wall from the bubble's time
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

// publish is a story of ana's with a lifetime.
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

// opens is what ben gets when he opens an item now.
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

// ends is how many events of the stream of ends there are for each item.
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
