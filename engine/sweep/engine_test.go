package sweep_test

import (
	"context"
	"slices"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/sweep"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/test/fixture"
)

const (
	deadline            = fixture.Start
	run      mayfly.Run = 77
)

// engine is the store of a test with a sweep on it.
type engine struct {
	*fixture.Engine
	options sweep.Options
	erased  []mayfly.ID // by the eraser of these tests
}

func open(t testing.TB) *engine {
	t.Helper()
	e := &engine{Engine: fixture.Open(t)}
	e.options.Erase = e.erase
	return e
}

// erase erases the body of items that have no media.
func (e *engine) erase(ctx context.Context, b walk.Batch) ([]walk.Failure, error) {
	for _, item := range b.Items {
		if err := e.Set.Ledger.EraseBody(ctx, item.ID); err != nil {
			return nil, err
		}
		e.erased = append(e.erased, item.ID)
	}
	return nil, nil
}

// born inserts an item with the deadline of these tests.
func (e *engine) born(fate mayfly.Fate) mayfly.Item {
	e.Helper()
	return e.Insert(deadline, fate)
}

// move changes the row of an item, past the sweep and its faults.
func (e *engine) move(id mayfly.ID, to mayfly.State, by mayfly.Cause, more ...func(*mayfly.Change)) mayfly.Item {
	e.Helper()
	c := mayfly.Change{To: to, Run: 5, Cause: by, At: deadline + 1}
	for _, m := range more {
		m(&c)
	}
	return e.Change(id, c)
}

func hold(c *mayfly.Change)    { c.Hold = mayfly.SetHold }
func release(c *mayfly.Change) { c.Hold = mayfly.ReleaseHold }

func (e *engine) sweep() *sweep.Sweep {
	e.Helper()
	s, err := sweep.New(e.Set, e.options)
	e.Must(err)
	return s
}

// act sweeps the items, as they were read, at an instant.
func (e *engine) act(now mayfly.Instant, repeat bool, items ...mayfly.Item) ([]walk.Failure, error) {
	return e.sweep().Act(e.Context(), walk.Batch{Items: items, Now: now, Run: run, Repeat: repeat})
}

// mustAct sweeps items and wants no failure.
func (e *engine) mustAct(now mayfly.Instant, repeat bool, items ...mayfly.Item) {
	e.Helper()
	e.WantActed(e.act(now, repeat, items...))
}

// wantEvents wants exactly one event expired for each of these items since the
// last look, with the key of the row as it is.
func (e *engine) wantEvents(ids ...mayfly.ID) {
	e.Helper()
	var got, want []mayfly.EventKey
	for _, event := range e.NewEvents(mayfly.Ends) {
		got = append(got, event.Key())
	}
	for _, id := range ids {
		want = append(want, mayfly.EventOf(e.Row(id), mayfly.WasExpired).Key())
	}
	order := func(a, b mayfly.EventKey) int { return a.ID.Compare(b.ID) }
	slices.SortStableFunc(got, order)
	slices.SortStableFunc(want, order)
	if !slices.Equal(got, want) {
		e.Errorf("events %+v\n  want %+v", got, want)
	}
}
