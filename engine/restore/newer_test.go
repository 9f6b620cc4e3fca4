package restore_test

import (
	"context"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/hydrate"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/fixture"
)

// ended restores an item and lets the restored time end. No clean-up has run since.
func (h *env) ended(s stage, media int) mayfly.Item {
	h.Helper()
	item := h.at(s, media)
	_, err := h.support().Item(context.Background(), h.request(item.ID), h.Now)
	h.Must(err)
	h.live(item.ID, 19*time.Minute, 10*time.Second)
	h.Now = h.Now.Add(2 * time.Minute)
	return h.Row(item.ID)
}

// restoreAgain restores an item for ten hours, past the hooks.
func (h *env) restoreAgain(id mayfly.ID) {
	h.Helper()
	req := h.request(id)
	req.Until = h.Now.Add(10 * time.Hour)
	_, err := h.restorer(h.Real, "again").Item(context.Background(), req, h.Now)
	h.Must(err)
}

func TestASlowCleanUpLeavesANewerRestoreInTheSet(t *testing.T) {
	for s := expired; s < stages; s++ {
		h := open(t)
		item := h.ended(s, 1)
		again := func() { // once, just before the ended entry is removed
			h.Hooks.Commit, h.Hooks.Swap = nil, nil
			h.restoreAgain(item.ID)
		}
		h.Hooks.Commit = func(_ context.Context, b *store.Batch, do func() error) error {
			for _, stage := range b.Stages() {
				if len(stage.Deletes) > 0 {
					again()
				}
			}
			return do()
		}
		h.Hooks.Swap = func(_ context.Context, table store.Table, _ store.Key, do fixture.Swap) (bool, []byte, error) {
			if table == engine.Restored {
				again()
			}
			return do()
		}
		h.Change(item.ID, mayfly.Change{To: mayfly.ExpiredHot, Cause: mayfly.ByExpiry, At: h.Now})
		_, err := h.support().Clean(context.Background(), batchOf(h.Now, item))
		h.Must(err)
		if h.Hooks.Commit != nil {
			t.Fatalf("%s: no entry was removed", s)
		}
		if err := h.stranger(h.gate(), item.ID); err != nil {
			t.Errorf("%s: restored for ten hours, a viewer gets: %v", s, err)
		}
		if !h.restored(item.ID) { // which a gate without a lease asks
			t.Errorf("%s: restored for ten hours, and there is no entry", s)
		}
	}
}

func TestTheReminderOfARestoreRepairsAMissingEntry(t *testing.T) {
	h := open(t)
	item := h.at(cold, 1)
	req := h.request(item.ID)
	req.Until = h.Now.Add(10 * time.Hour)
	_, err := h.support().Item(context.Background(), req, h.Now)
	h.Must(err)
	g := h.gate()
	h.forgetRestored(item.ID)
	if h.stranger(g, item.ID) == nil {
		t.Fatal("the gate knows of the restore without an entry")
	}
	h.live(item.ID, time.Hour, time.Minute)
	if err := h.stranger(g, item.ID); err != nil {
		t.Errorf("an hour later a viewer gets: %v", err)
	}
	if !h.restored(item.ID) {
		t.Error("there is no entry")
	}
}

func TestTheReminderOfARestoreRepairsMediaThatASlowCleanUpDeleted(t *testing.T) {
	h := open(t)
	item := h.at(cold, 2)
	h.Hooks.Transition = func(context.Context, []mayfly.Change, fixture.Transition) ([]store.Outcome, error) {
		return nil, mayfly.Errorf(mayfly.Unavailable, "the ledger is away")
	}
	if _, err := h.support().Item(context.Background(), h.request(item.ID), h.Now); err == nil {
		t.Fatal("restored without a ledger")
	}
	h.Hooks.Transition = nil
	h.Now = h.Now.Add(21 * time.Minute) // the failed restore has left copies behind
	h.Hooks.Hot.Delete = func(_ context.Context, _ []mayfly.BlobKey, do func() error) error {
		h.Hooks.Hot.Delete = nil
		h.restoreAgain(item.ID)
		return do()
	}
	_, err := h.support().Clean(context.Background(), batchOf(h.Now, item))
	h.Must(err)
	if h.Hooks.Hot.Delete != nil {
		t.Fatal("nothing was deleted")
	}
	h.live(item.ID, time.Hour, time.Minute)
	back := h.Row(item.ID)
	h.wantRead(back, hydrate.Hot)
	h.WantNamed(back)
}

// forgetRestored takes an item out of the restored set.
func (h *env) forgetRestored(id mayfly.ID) {
	h.Helper()
	h.SetRow(engine.Restored, engine.RestoredKey(id), nil)
	var b store.Batch
	for _, day := range h.Partition(engine.RestoredDays, engine.RestoredDaysFrom(0).Partition) {
		b.DeletePartition(engine.RestoredDays, day.Clustering)
	}
	h.Must(h.Real.Writer.Commit(context.Background(), &b))
}
