package archive_test

import (
	"context"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/archive"
	"github.com/mayflyhq/mayfly/engine/hydrate"
	"github.com/mayflyhq/mayfly/engine/sweep"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/fixture"
)

// env is a store with the options of the archive under test, which uses Set: a test
// may wrap what is in it.
type env struct {
	*fixture.Engine
	o archive.Options
}

func open(t testing.TB) *env {
	t.Helper()
	return openOn(t, vfs.NewMem())
}

func openOn(t testing.TB, fs vfs.FS) *env {
	t.Helper()
	h := &env{Engine: fixture.OpenOn(t, fs)}
	h.o.Erase = h.EraseMedia
	return h
}

// restart closes the store and opens it again on the same disk.
func (h *env) restart(fs vfs.FS) {
	h.Helper()
	h.Close()
	now := h.Now
	h.Engine = fixture.OpenOn(h.TB, fs)
	h.Now, h.o.Erase = now, h.EraseMedia
}

func (h *env) sweep() walk.Walk {
	h.Helper()
	s, err := sweep.New(h.Real, sweep.Options{})
	h.Must(err)
	return s.Walk()
}

// expire lets the deadline and the safety window pass and sweeps.
func (h *env) expire(items ...mayfly.Item) []mayfly.Item {
	h.Helper()
	h.Now = items[0].ID.Deadline().Add(90 * time.Minute)
	h.WantActed(h.sweep().Act(context.Background(), walk.Batch{Items: items, Now: h.Now, Run: 1}))
	return h.rows(items)
}

// rows returns the rows of items as they are now.
func (h *env) rows(items []mayfly.Item) []mayfly.Item {
	h.Helper()
	rows := make([]mayfly.Item, len(items))
	for i, item := range items {
		rows[i] = h.Row(item.ID)
	}
	return rows
}

func (h *env) newArchive() *archive.Archive {
	h.Helper()
	a, err := archive.New(h.Set, h.o)
	h.Must(err)
	return a
}

// archive acts on items once, by a run of its own.
func (h *env) archive(run mayfly.Run, items ...mayfly.Item) ([]walk.Failure, error) {
	h.Helper()
	return h.newArchive().Act(context.Background(), h.batch(run, items...))
}

// archived archives items once and wants no failure.
func (h *env) archived(run mayfly.Run, items ...mayfly.Item) {
	h.Helper()
	h.WantActed(h.archive(run, items...))
}

func (h *env) batch(run mayfly.Run, items ...mayfly.Item) walk.Batch {
	return walk.Batch{Items: items, Now: h.Now, Run: run, Repeat: true}
}

// readable wants every medium of items as it was uploaded, from a tier; 0 is either.
func (h *env) readable(want hydrate.Tier, items ...mayfly.Item) {
	h.Helper()
	for _, item := range h.rows(items) {
		if tier := h.Readable(item); item.Media > 0 && want != 0 && tier != want {
			h.Fatalf("%s was read from %s, not from %s", item.ID, tier, want)
		}
	}
}

// onTransitions calls before in front of and after behind every transition of the
// archive, with its number; either may be nil.
func (h *env) onTransitions(before, after func(call int)) {
	calls := 0
	h.Hooks.Transition = func(ctx context.Context, changes []mayfly.Change, do fixture.Transition) ([]store.Outcome, error) {
		calls++
		call := calls
		if before != nil {
			before(call)
		}
		outcomes, err := do(ctx, changes)
		if after != nil {
			after(call)
		}
		return outcomes, err
	}
}

// past returns a copy of h that goes past the hooks.
func (h *env) past() *env {
	engine := *h.Engine
	engine.Set = engine.Real
	return &env{&engine, h.o}
}

// left is how many items are not cold yet.
func (h *env) left(items []mayfly.Item) (n int) {
	for _, item := range h.rows(items) {
		if item.State != mayfly.Cold {
			n++
		}
	}
	return n
}

// countRowsGet counts the calls of Rows.Get for a table.
func (h *env) countRowsGet(table store.Table) *int {
	calls := 0
	h.Hooks.RowsGet = func(_ context.Context, t store.Table, do func() ([][]byte, error)) ([][]byte, error) {
		if t == table {
			calls++
		}
		return do()
	}
	return &calls
}
