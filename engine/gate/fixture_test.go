package gate_test

import (
	"context"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	rowtables "github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/gate"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/fixture"
)

const (
	birth    = fixture.Start
	deadline = birth + 24*3600*1000
)

func newID(t testing.TB, owner mayfly.UserID, random uint64) mayfly.ID {
	t.Helper()
	id, err := mayfly.NewID(birth, fixture.Lifetime(t, 24*time.Hour), owner.Trace(), random)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// engine is a gate on the store of a test. Its lookups are counted and may fail;
// the signals run over a wire that may be cut.
type engine struct {
	*fixture.Engine
	wire  *fixture.Signals
	gate  *gate.Gate
	since map[string]int // counts of calls at the last look
}

func open(t testing.TB, o gate.Options) *engine {
	t.Helper()
	e := &engine{Engine: fixture.Open(t), wire: &fixture.Signals{}, since: map[string]int{}}
	e.Set.Signals = e.wire
	var err error
	e.gate, err = gate.New(t.Context(), e.Set, o)
	e.Must(err)
	t.Cleanup(func() { e.Must(e.gate.Close()) })
	return e
}

// calls returns how often an operation was called since the last look.
func (e *engine) calls(op string) int64 { return int64(e.Hooks.Count(op) - e.since[op]) }

// look returns calls and starts to count anew.
func (e *engine) look(op string) int64 {
	n := e.calls(op)
	e.since[op] += int(n)
	return n
}

// lookups returns how often the store was read since the last look.
func (e *engine) lookups() (n int64) {
	for _, op := range []string{"ledger get", "body", "rows get", "range"} {
		n += e.look(op)
	}
	return n
}

// afterGet calls f after every read of rows of the ledger.
func (e *engine) afterGet(f func() error) {
	e.Hooks.LedgerGet = func(_ context.Context, _ []mayfly.ID, do func() ([]store.Found, error)) ([]store.Found, error) {
		found, err := do()
		if err == nil {
			err = f()
		}
		return found, err
	}
}

// onRows calls f before every read of single rows and after every read of a range.
func (e *engine) onRows(f func(ctx context.Context) error) {
	e.Hooks.RowsGet = func(ctx context.Context, _ store.Table, do func() ([][]byte, error)) ([][]byte, error) {
		if err := f(ctx); err != nil {
			return nil, err
		}
		return do()
	}
	e.Hooks.Range = func(ctx context.Context, _ store.Table, do func() ([]store.Row, error)) ([]store.Row, error) {
		found, err := do()
		if err == nil {
			err = f(ctx)
		}
		return found, err
	}
}

// noBody is a hook under which no body is found.
func noBody(_ context.Context, ids []mayfly.ID, _ func() ([]store.FoundBody, error)) ([]store.FoundBody, error) {
	return make([]store.FoundBody, len(ids)), nil
}

// put inserts an item with its body.
func (e *engine) put(item mayfly.Item, body mayfly.Body) {
	e.Helper()
	e.InsertItem(item, body)
}

// move changes the row of an item, past the hooks.
func (e *engine) move(id mayfly.ID, to mayfly.State, more ...func(*mayfly.Change)) {
	e.Helper()
	c := mayfly.Change{To: to, Nonce: 9, Cause: mayfly.ByUser, At: deadline}
	for _, m := range more {
		m(&c)
	}
	e.Change(id, c)
}

func hold(c *mayfly.Change) { c.Hold, c.Cause = mayfly.SetHold, mayfly.BySupport }

func (e *engine) signal(topic store.Topic, id mayfly.ID) {
	e.Helper()
	e.Must(e.wire.Publish(context.Background(), store.Signal{Topic: topic, ID: id}))
}

// restore puts ids into the restored set, for two days from their deadline on.
func (e *engine) restore(ids ...mayfly.ID) { e.restoreUntil(deadline.Add(48*time.Hour), ids...) }

func (e *engine) restoreUntil(until mayfly.Instant, ids ...mayfly.ID) {
	e.Helper()
	for _, id := range ids {
		var b store.Batch
		rowtables.ListRestored(&b, id, until)
		e.Must(e.Real.Writer.Commit(context.Background(), &b))
		e.SetRow(rowtables.Restored, rowtables.RestoredKey(id), []byte{1})
	}
}

func (e *engine) open(id mayfly.ID, v mayfly.Viewer, now mayfly.Instant) (gate.Verdict, error) {
	opened, err := e.gate.Open(e.Context(), id, v, now)
	return opened.Verdict, err
}

func (e *engine) want(id mayfly.ID, v mayfly.Viewer, now mayfly.Instant, want gate.Verdict) {
	e.Helper()
	got, err := e.open(id, v, now)
	if want == gate.Serve || want == gate.Archived {
		if got != want || err != nil {
			e.Errorf("%s (%v), want %s", got, err, want)
		}
		return
	}
	if refusal := map[gate.Verdict]error{gate.Gone: mayfly.Gone, gate.Hidden: mayfly.NotFound}[want]; err != refusal || got != 0 {
		e.Errorf("%s (%v), want the bare %v", got, err, refusal)
	}
}
