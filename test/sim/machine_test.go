package sim

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/engine/clock"
	"github.com/mayflyhq/mayfly/engine/gate"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/diskstore"
	"github.com/mayflyhq/mayfly/store/pebblestore"
	"github.com/mayflyhq/mayfly/test/fixture"
)

// machine is a computer with a disk and a clock that can be set wrong, and a
// node that runs on it: loops and all, in a bubble whose time is virtual.
type machine struct {
	*clock.Manual
	t     *testing.T
	disk  *vfs.MemFS
	owner mayfly.UserID
	birth func() // called while a birth is on its way to the disk; may be nil

	node *node.Node
	set  store.Set
	db   *pebblestore.Store
	hot  *diskstore.Store
	cold *diskstore.Store
}

// onMachine runs a test in a bubble with a machine that has just been started, and
// verifies what it leaves.
func onMachine(t *testing.T, do func(m *machine)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := &machine{Manual: clock.NewManual(genesis), t: t, disk: vfs.NewMem(), owner: mayfly.UserOf("sim", "ana")}
		m.start()
		do(m)
		atRest(t, m.set, m.node.Clock().Read().Steady) // no time passes meanwhile
		m.stop()
	})
}

// start starts the node.
func (m *machine) start() {
	m.t.Helper()
	var err error
	if m.db, m.hot, m.set, err = openSet(m.disk, 0); err != nil {
		m.t.Fatal(err)
	}
	if m.cold, err = openTier(m.disk, "cold", m.set.Fuse, 0); err != nil {
		m.t.Fatal(err)
	}
	m.set.Cold = m.cold
	m.set.Signals = &fixture.Signals{}
	m.set.Writer = slowWriter{m.set.Writer, m}
	m.node, err = node.Start(m.t.Context(), m.set, node.Options{
		Source:  m.Source(),
		Problem: func(loop string, err error) { m.t.Errorf("loop %s: %v", loop, err) },
		Gate:    gate.Options{CacheRows: 128},
	})
	if err != nil {
		m.t.Fatal(err)
	}
	m.live(time.Second)
}

// stop stops the node in good order.
func (m *machine) stop() {
	m.t.Helper()
	if err := errors.Join(m.node.Stop(m.t.Context()), m.cold.Close(), m.hot.Close(), m.db.Close()); err != nil {
		m.t.Fatal(err)
	}
}

// live lets time pass for machine and loops alike.
func (m *machine) live(d time.Duration) {
	const tick = 100 * time.Millisecond
	for ; d > 0; d -= tick {
		m.Advance(tick)
		time.Sleep(tick) // the bubble's
	}
	synctest.Wait()
}

// publish gives birth to a story by the node's clock.
func (m *machine) publish(lifetime time.Duration, text string) (mayfly.ID, error) {
	m.t.Helper()
	l, err := mayfly.LifetimeOf(lifetime)
	if err != nil {
		m.t.Fatal(err)
	}
	p, err := m.node.Intake().Publish(m.t.Context(), intake.Draft{
		Owner: m.owner, Product: mayfly.Story, Fate: mayfly.Archive, Audience: mayfly.Everyone, Lifetime: l, Text: text,
	}, m.node.Clock().Read().Steady)
	if err != nil {
		return mayfly.ID{}, err
	}
	if now := m.node.Clock().Read().Now; p.Item.ID.Birth()+mayfly.Instant(lifetime.Milliseconds()) <= now {
		m.t.Errorf("%s was born expired: at %s, for %s, and it is %s", p.Item.ID, p.Item.ID.Birth(), lifetime, now)
	}
	return p.Item.ID, nil
}

func (m *machine) mustPublish(lifetime time.Duration, text string) mayfly.ID {
	m.t.Helper()
	id, err := m.publish(lifetime, text)
	if err != nil {
		m.t.Fatal(err)
	}
	return id
}

// wantRefusedBirth wants births to be refused in a way that tells what to do.
func (m *machine) wantRefusedBirth() {
	m.t.Helper()
	_, err := m.publish(time.Hour, "in doubt")
	var e *mayfly.Error
	if !errors.Is(err, mayfly.Unavailable) || !errors.As(err, &e) || e.Hint == "" {
		m.t.Errorf("a birth in doubt answers %v, want Unavailable with a hint", err)
	}
}

// wantServed wants strangers to see the item now.
func (m *machine) wantServed(id mayfly.ID) {
	m.t.Helper()
	if err := m.open(id, mayfly.Viewer{}); err != nil {
		m.t.Errorf("%s at %+v: %v, want it served", id, m.node.Clock().Read(), err)
	}
}

// wantGone wants the answer gone for strangers, and the item for its author.
func (m *machine) wantGone(id mayfly.ID) {
	m.t.Helper()
	if err := m.open(id, mayfly.Viewer{}); !errors.Is(err, mayfly.Gone) {
		m.t.Errorf("%s at %+v: %v, want it gone", id, m.node.Clock().Read(), err)
	}
	if err := m.open(id, mayfly.ViewerOf(m.owner)); err != nil {
		m.t.Errorf("%s at %+v: its author gets %v", id, m.node.Clock().Read(), err)
	}
}

func (m *machine) open(id mayfly.ID, viewer mayfly.Viewer) error {
	_, err := m.node.Gate().Open(m.t.Context(), id, viewer, m.node.Clock().Read().Now)
	return err
}

// wantRow wants the row in a state, or archived where that lies behind it, and
// exactly so many different expired events.
func (m *machine) wantRow(id mayfly.ID, state mayfly.State, expired int) {
	m.t.Helper()
	found, err := m.set.Ledger.Get(m.t.Context(), id)
	if err != nil {
		m.t.Fatal(err)
	}
	if got := found[0].Item.State; got != state && (state != mayfly.ExpiredHot || got != mayfly.Cold) {
		m.t.Errorf("%s is %s, want %s", id, got, state)
	}
	events, err := readStream(m.t.Context(), m.set.Log, mayfly.Ends)
	if err != nil {
		m.t.Fatal(err)
	}
	keys := map[mayfly.EventKey]bool{}
	for _, e := range events {
		if e.ID == id && e.Verb == mayfly.WasExpired {
			keys[e.Key()] = true
		}
	}
	if len(keys) != expired {
		m.t.Errorf("%s has %d expired events, want %d", id, len(keys), expired)
	}
}

// slowWriter lets something happen while a birth is on its way to the disk.
type slowWriter struct {
	store.Writer
	m *machine
}

// Commit implements store.Writer.
func (w slowWriter) Commit(ctx context.Context, b *store.Batch) error {
	for _, stage := range b.Stages() {
		if happens := w.m.birth; len(stage.Inserts) > 0 && happens != nil {
			w.m.birth = nil
			happens()
			ctx = context.WithoutCancel(ctx) // it is on its way already
		}
	}
	return w.Writer.Commit(ctx, b)
}
