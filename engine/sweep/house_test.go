package sweep_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/sweep"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/memstore"
	"github.com/mayflyhq/mayfly/store/pebblestore"
)

const (
	deadline mayfly.Instant = 1_800_000_017_345
	run      mayfly.Run     = 77
)

// house is the embedded store on memory, with the sweep on a ledger and a log
// that may be broken.
type house struct {
	testing.TB
	set    store.Set
	ledger *ledger
	log    *log
	o      sweep.Options
	erased []mayfly.ID // by the eraser of these tests
	items  uint64
}

func open(t testing.TB) *house {
	t.Helper()
	db, err := pebblestore.Open(pebblestore.Options{FS: vfs.NewMem(), Dir: "db", MemtableBytes: 1 << 20, CacheBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	h := &house{TB: t, ledger: &ledger{Ledger: db.Ledger()}, log: &log{Log: db.Log()}}
	h.set = store.Set{Writer: db.Writer(), Ledger: h.ledger, Rows: db.Rows(), Log: h.log, Signals: memstore.NewSignals(), Fuse: db.Fuse()}
	h.o.Erase = h.erase
	return h
}

// erase is an eraser: these items have no media, only a body.
func (h *house) erase(ctx context.Context, b walk.Batch) ([]walk.Failure, error) {
	for _, item := range b.Items {
		if err := h.set.Ledger.EraseBody(ctx, item.ID); err != nil {
			return nil, err
		}
		h.erased = append(h.erased, item.ID)
	}
	return nil, nil
}

// ledger is a ledger in whose way things come.
type ledger struct {
	store.Ledger
	before func(changes []mayfly.Change)                                          // each Transition
	after  func([]mayfly.Change, []store.Outcome, error) ([]store.Outcome, error) // what the caller is told of it
	calls  int
}

func (l *ledger) Transition(ctx context.Context, changes []mayfly.Change) ([]store.Outcome, error) {
	l.calls++
	if l.before != nil {
		l.before(changes)
	}
	outcomes, err := l.Ledger.Transition(ctx, changes)
	if l.after != nil {
		return l.after(changes, outcomes, err)
	}
	return outcomes, err
}

// log is a log that is away while err is set.
type log struct {
	store.Log
	err error
}

func (l *log) Append(ctx context.Context, events ...mayfly.Event) error {
	if l.err != nil {
		return l.err
	}
	return l.Log.Append(ctx, events...)
}

// born is a row in the ledger with the deadline of these tests.
func (h *house) born(fate mayfly.Fate) mayfly.Item {
	h.Helper()
	day, err := mayfly.LifetimeOf(24 * time.Hour)
	if err != nil {
		h.Fatal(err)
	}
	owner := mayfly.UserOf("test", "ana")
	h.items++
	id, err := mayfly.NewID(deadline.Add(-24*time.Hour), day, owner.Trace(), h.items<<4|5)
	if err != nil {
		h.Fatal(err)
	}
	item := mayfly.Item{
		ID: id, Owner: owner, Product: mayfly.Story, Fate: fate, Audience: mayfly.Everyone,
		State: mayfly.Active, Generation: mayfly.Born, Nonce: mayfly.Nonce(h.items), Changed: id.Birth(),
	}
	var b store.Batch
	b.Insert(store.Birth{Item: item})
	if err := h.set.Writer.Commit(h.Context(), &b); err != nil {
		h.Fatal(err)
	}
	return item
}

// move makes a change of the row as it is, past the sweep and its faults.
func (h *house) move(id mayfly.ID, to mayfly.State, by mayfly.Cause, more ...func(*mayfly.Change)) mayfly.Item {
	h.Helper()
	item := h.row(id)
	c := mayfly.Change{ID: id, From: item.State, Generation: item.Generation, To: to, Nonce: 999, Run: 5, Cause: by, At: deadline + 1}
	for _, m := range more {
		m(&c)
	}
	outcomes, err := h.ledger.Ledger.Transition(h.Context(), []mayfly.Change{c})
	if err != nil || outcomes[0].Result != store.Applied {
		h.Fatalf("%s → %s: %+v, %v", item.State, to, outcomes, err)
	}
	return outcomes[0].Current
}

func hold(c *mayfly.Change)    { c.Hold = mayfly.SetHold }
func release(c *mayfly.Change) { c.Hold = mayfly.ReleaseHold }

func (h *house) row(id mayfly.ID) mayfly.Item {
	h.Helper()
	found, err := h.ledger.Get(h.Context(), id)
	if err != nil || !found[0].Found {
		h.Fatalf("row of %s: %+v, %v", id, found, err)
	}
	return found[0].Item
}

func (h *house) sweep() *sweep.Sweep {
	h.Helper()
	s, err := sweep.New(h.set, h.o)
	if err != nil {
		h.Fatal(err)
	}
	return s
}

// act sweeps the items, as they were read, at an instant.
func (h *house) act(now mayfly.Instant, repeat bool, items ...mayfly.Item) ([]walk.Failure, error) {
	return h.sweep().Act(h.Context(), walk.Batch{Items: items, Now: now, Run: run, Repeat: repeat})
}

// mustAct sweeps what must go well.
func (h *house) mustAct(now mayfly.Instant, repeat bool, items ...mayfly.Item) {
	h.Helper()
	failures, err := h.act(now, repeat, items...)
	if err != nil || len(failures) > 0 {
		h.Fatalf("act: %v, failures %+v", err, failures)
	}
}

// events are the ends in the log since the last time it was asked.
func (h *house) events() (events []mayfly.Event) {
	h.Helper()
	r, err := h.set.Log.Reader(h.Context(), mayfly.Ends, "test")
	if err != nil {
		h.Fatal(err)
	}
	defer r.Close()
	for {
		lag, err := r.Lag(h.Context())
		if err != nil {
			h.Fatal(err)
		}
		if lag == 0 {
			if err := r.Commit(h.Context()); err != nil {
				h.Fatal(err)
			}
			return events
		}
		records, err := r.Next(h.Context(), 1000)
		if err != nil {
			h.Fatal(err)
		}
		for _, record := range records {
			events = append(events, record.Event)
		}
	}
}

func (h *house) wantState(id mayfly.ID, state mayfly.State, g mayfly.Generation) {
	h.Helper()
	if row := h.row(id); row.State != state || row.Generation != g {
		h.Errorf("row is %s of generation %d, want %s of %d", row.State, row.Generation, state, g)
	}
}

// wantEvents says which items have expired, by the log: each event is of the
// row as it is.
func (h *house) wantEvents(ids ...mayfly.ID) {
	h.Helper()
	var got, want []mayfly.EventKey
	for _, e := range h.events() {
		got = append(got, e.Key())
	}
	for _, id := range ids {
		want = append(want, mayfly.EventOf(h.row(id), mayfly.WasExpired).Key())
	}
	order := func(a, b mayfly.EventKey) int { return a.ID.Compare(b.ID) }
	slices.SortStableFunc(got, order)
	slices.SortStableFunc(want, order)
	if !slices.Equal(got, want) {
		h.Errorf("events %+v\n  want %+v", got, want)
	}
}
