package erase_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// far is how long a call takes to a store that is a network away.
const far = 2 * time.Millisecond

type farRows struct {
	store.Rows
	calls *atomic.Int64
}

func (f farRows) Range(ctx context.Context, t store.Table, r store.Range) ([]store.Row, error) {
	f.calls.Add(1)
	time.Sleep(far)
	return f.Rows.Range(ctx, t, r)
}

// counted is a ledger whose calls are counted.
type counted struct {
	store.Ledger
	calls *atomic.Int64
}

func (f counted) Get(ctx context.Context, ids ...mayfly.ID) ([]store.Found, error) {
	f.calls.Add(1)
	return f.Ledger.Get(ctx, ids...)
}

func (f counted) Transition(ctx context.Context, changes []mayfly.Change) ([]store.Outcome, error) {
	f.calls.Add(1)
	return f.Ledger.Transition(ctx, changes)
}

// A story has 64 slices of views: one behind the other, a batch of 500 would take
// a minute, and no walk waits that long.
func TestTheViewsOfABatchAreLookedForSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t)
		var items []mayfly.Item
		for range 20 {
			item := h.story(0)
			if _, err := h.eraser().Delete(t.Context(), item.ID, mayfly.ByUser, h.now); err != nil {
				t.Fatal(err)
			}
			items = append(items, item)
		}
		var calls atomic.Int64
		h.set.Rows = farRows{h.real.Rows, &calls}
		begun := time.Now()
		if failures, err := h.eraser().Act(t.Context(), walk.Batch{Items: items, Now: h.now, Repeat: true}); err != nil || len(failures) > 0 {
			t.Fatal(failures, err)
		}
		if took, n := time.Since(begun), calls.Load(); n != 20*64 || took > 50*far {
			t.Errorf("%d calls took %s", n, took)
		}
	})
}

// Calls of an account's page do not grow with what is on it.
func TestThePageOfAnAccountIsDeletedInAFewCalls(t *testing.T) {
	h := open(t)
	for range 60 {
		h.story(0)
	}
	var calls atomic.Int64
	h.set.Ledger = counted{h.real.Ledger, &calls}
	if _, err := h.accounted().Account(t.Context(), ana(), "support", "asked to", h.now); err != nil {
		t.Fatal(err)
	}
	if n := calls.Load(); n > 6 {
		t.Errorf("%d calls for 60 items", n)
	}
}

// Who cannot tell the caches waits for the page, not for each of its items.
func TestAnAccountWhoseCachesCannotBeToldIsErasedInOneWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t)
		for range 60 {
			h.story(0)
		}
		h.set.Signals = deaf{h.real.Signals}
		begun := time.Now()
		if _, err := h.accounted().Account(t.Context(), ana(), "support", "asked to", h.now); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took < store.CacheWait || took >= 2*store.CacheWait {
			t.Errorf("it took %s", took)
		}
	})
}
