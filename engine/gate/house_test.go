package gate_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/gate"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/pebblestore"
)

const (
	birth    mayfly.Instant = 1_800_000_017_345
	deadline                = birth + 24*3600*1000
)

func newID(t testing.TB, owner mayfly.UserID, random uint64) mayfly.ID {
	t.Helper()
	day, err := mayfly.LifetimeOf(24 * time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	id, err := mayfly.NewID(birth, day, owner.Trace(), random)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// house is a gate on the embedded store on memory. Every lookup is counted and
// may be broken; the wire of the signals may be cut.
type house struct {
	testing.TB
	set    store.Set
	wire   *wire
	ledger *ledger
	rows   *rows
	gate   *gate.Gate
}

func open(t testing.TB, o gate.Options) *house {
	t.Helper()
	db, err := pebblestore.Open(pebblestore.Options{FS: vfs.NewMem(), Dir: "db", MemtableBytes: 1 << 20, CacheBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	h := &house{TB: t, wire: &wire{epoch: 1}, ledger: &ledger{Ledger: db.Ledger()}, rows: &rows{Rows: db.Rows()}}
	h.set = store.Set{Writer: db.Writer(), Ledger: h.ledger, Rows: h.rows, Log: db.Log(), Signals: h.wire, Fuse: db.Fuse()}
	if h.gate, err = gate.New(t.Context(), h.set, o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(h.gate.Close(), db.Close()); err != nil {
			t.Error(err)
		}
	})
	return h
}

type ledger struct {
	store.Ledger
	gets, bodies atomic.Int64
	get          func(found []store.Found) error // after the row was read
	noBody       bool
}

func (l *ledger) Get(ctx context.Context, ids ...mayfly.ID) ([]store.Found, error) {
	l.gets.Add(1)
	found, err := l.Ledger.Get(ctx, ids...)
	if l.get != nil && err == nil {
		err = l.get(found)
	}
	return found, err
}

func (l *ledger) Body(ctx context.Context, ids ...mayfly.ID) ([]store.FoundBody, error) {
	l.bodies.Add(1)
	if l.noBody {
		return make([]store.FoundBody, len(ids)), nil
	}
	return l.Ledger.Body(ctx, ids...)
}

type rows struct {
	store.Rows
	gets, ranges atomic.Int64
	read         func(ctx context.Context) error // before either
}

func (r *rows) Get(ctx context.Context, t store.Table, keys ...store.Key) ([][]byte, error) {
	r.gets.Add(1)
	if r.read != nil {
		if err := r.read(ctx); err != nil {
			return nil, err
		}
	}
	return r.Rows.Get(ctx, t, keys...)
}

func (r *rows) Range(ctx context.Context, t store.Table, rg store.Range) ([]store.Row, error) {
	r.ranges.Add(1)
	found, err := r.Rows.Range(ctx, t, rg)
	if r.read != nil && err == nil {
		err = r.read(ctx)
	}
	return found, err
}

// lookups is how often the store was asked since the last time.
func (h *house) lookups() int64 {
	return h.ledger.gets.Swap(0) + h.ledger.bodies.Swap(0) + h.rows.gets.Swap(0) + h.rows.ranges.Swap(0)
}

// wire carries signals until it is cut: then leases are lost and signals are not
// handed over (trap 18). Mended it is another epoch.
type wire struct {
	mu      sync.Mutex
	cut     bool
	epoch   uint64
	handles []func(store.Signal)
	refuses error
	closed  int
}

func (w *wire) setCut(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut && !cut {
		w.epoch++
	}
	w.cut = cut
}

func (w *wire) Publish(_ context.Context, s store.Signal) error {
	w.mu.Lock()
	cut, handles := w.cut, slices.Clone(w.handles)
	w.mu.Unlock()
	if !cut {
		for _, handle := range handles {
			handle(s)
		}
	}
	return nil
}

func (w *wire) Subscribe(_ context.Context, handle func(store.Signal)) (store.Subscription, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refuses != nil {
		return nil, w.refuses
	}
	w.handles = append(w.handles, handle)
	return w, nil
}

func (w *wire) Lease() (uint64, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.epoch, !w.cut
}

func (w *wire) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed++
	return nil
}

// put puts the row into the ledger as a birth and moves it from there.
func (h *house) put(item mayfly.Item, body mayfly.Body) {
	h.Helper()
	var b store.Batch
	b.Insert(store.Birth{Item: item, Body: body})
	if err := h.set.Writer.Commit(h.Context(), &b); err != nil {
		h.Fatal(err)
	}
}

func (h *house) move(id mayfly.ID, to mayfly.State, more ...func(*mayfly.Change)) {
	h.Helper()
	found, err := h.ledger.Ledger.Get(context.Background(), id)
	if err != nil {
		h.Fatal(err)
	}
	item := found[0].Item
	c := mayfly.Change{ID: id, From: item.State, Generation: item.Generation, To: to, Nonce: 9, Cause: mayfly.ByUser, At: deadline}
	for _, m := range more {
		m(&c)
	}
	outcomes, err := h.ledger.Transition(context.Background(), []mayfly.Change{c})
	if err != nil || outcomes[0].Result != store.Applied {
		h.Fatalf("%+v, %v", outcomes, err)
	}
}

func hold(c *mayfly.Change) { c.Hold, c.Cause = mayfly.SetHold, mayfly.BySupport }

func (h *house) signal(topic store.Topic, id mayfly.ID) {
	h.Helper()
	if err := h.wire.Publish(context.Background(), store.Signal{Topic: topic, ID: id}); err != nil {
		h.Fatal(err)
	}
}

// restore puts ids into the restored set.
func (h *house) restore(ids ...mayfly.ID) {
	h.Helper()
	var b store.Batch
	for _, id := range ids {
		b.Put(store.Restored, store.RestoredKey(id), []byte{1}, 0)
	}
	if err := h.set.Writer.Commit(context.Background(), &b); err != nil {
		h.Fatal(err)
	}
}

func (h *house) open(id mayfly.ID, v mayfly.Viewer, now mayfly.Instant) (gate.Verdict, error) {
	opened, err := h.gate.Open(h.Context(), id, v, now)
	return opened.Verdict, err
}

func (h *house) want(id mayfly.ID, v mayfly.Viewer, now mayfly.Instant, want gate.Verdict) {
	h.Helper()
	got, err := h.open(id, v, now)
	if want == gate.Serve || want == gate.Archived {
		if got != want || err != nil {
			h.Errorf("%s (%v), want %s", got, err, want)
		}
		return
	}
	if refusal := map[gate.Verdict]error{gate.Gone: mayfly.Gone, gate.Hidden: mayfly.NotFound}[want]; err != refusal || got != 0 {
		h.Errorf("%s (%v), want the bare %v", got, err, refusal)
	}
}
