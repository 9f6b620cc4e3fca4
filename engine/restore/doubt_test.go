package restore_test

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/hydrate"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/fixture"
)

// The result of every transition is unknown. Any of them may land after the restore
// has failed, and then names the copies.
func TestAFailedRestoreThatLandsLateLosesNothing(t *testing.T) {
	r := fixture.Seeded(t)
	for s := expired; s < stages; s++ {
		h := open(t)
		item := h.at(s, 2)
		set, late := storetest.Prefix(h.Real, func(c storetest.Call) storetest.Fault {
			return storetest.Fault{Fails: c.Op == storetest.Transition}
		})
		h.Set = set
		_, err := h.support().Item(context.Background(), h.request(item.ID), h.Now)
		if !errors.Is(err, mayfly.Unknown) || h.Row(item.ID) != item || late.Failed() < 2 {
			t.Fatalf("%s: %v after %d lost responses", s, err, late.Failed())
		}
		landed, err := late.LandAll(context.Background(), r)
		h.Must(err)
		row := h.Row(item.ID)
		if row.State != mayfly.Active || row.Generation != item.Generation+1 {
			t.Fatalf("%s: %d landed: %+v", s, landed, row)
		}
		h.wantRead(row, hydrate.Hot)
		h.live(item.ID, 2*time.Hour, time.Minute)
		h.wantArchived(item.ID)
	}
}

func TestAChangeWithALostResponseIsRecognisedByItsNonce(t *testing.T) {
	for s := expired; s < stages; s++ {
		h := open(t)
		item := h.at(s, 1)
		lost := false
		set, late := storetest.Prefix(h.Real, func(c storetest.Call) storetest.Fault {
			if lost || c.Op != storetest.Transition {
				return storetest.Fault{}
			}
			lost = true
			return storetest.Fault{Fails: true, Stage: 1, Silent: true} // written, but the response is lost
		})
		h.Set = set
		back, err := h.support().Item(context.Background(), h.request(item.ID), h.Now)
		h.Must(err)
		if late.Failed() != 1 {
			t.Fatalf("%d responses were lost", late.Failed())
		}
		if back.Generation != item.Generation+1 || back != h.Row(item.ID) {
			t.Fatalf("%s: it was restored twice: %+v", s, back)
		}
	}
}

func TestARestoreWithoutItsReminderDoesNothing(t *testing.T) {
	h := open(t)
	item := h.at(cold, 1)
	set, _ := storetest.Prefix(h.Real, func(c storetest.Call) storetest.Fault {
		return storetest.Fault{Fails: c.Op == storetest.Commit, Kind: mayfly.Unavailable}
	})
	h.Set = set
	if _, err := h.support().Item(context.Background(), h.request(item.ID), h.Now); !errors.Is(err, mayfly.Unavailable) || h.Row(item.ID) != item {
		t.Fatalf("without the reminder: %v", err)
	}
	left := h.unnamed(item)
	if len(left) > 0 {
		t.Errorf("media were copied before the reminder was durable: %v", left)
	}
}

func TestAChangeThatLandsBetweenTwoRoundsIsTheSameRestore(t *testing.T) {
	for s := expired; s < stages; s++ {
		h := open(t)
		item := h.at(s, 1)
		var late []mayfly.Change // of the first transition: it lands at the second read after it
		h.Hooks.Transition = func(ctx context.Context, changes []mayfly.Change, do fixture.Transition) ([]store.Outcome, error) {
			if late != nil {
				return do(ctx, changes)
			}
			late = changes
			return []store.Outcome{{Result: store.InDoubt}}, nil
		}
		reads := 0
		h.Hooks.LedgerGet = func(ctx context.Context, _ []mayfly.ID, do func() ([]store.Found, error)) ([]store.Found, error) {
			if late != nil {
				if reads++; reads == 2 {
					_, err := h.Real.Ledger.Transition(ctx, late)
					h.Must(err)
				}
			}
			return do()
		}
		back, err := h.support().Item(context.Background(), h.request(item.ID), h.Now)
		h.Must(err)
		if back != h.Row(item.ID) || back.State != mayfly.Active {
			t.Fatalf("%s: %+v", s, back)
		}
		h.wantRead(back, hydrate.Hot)
		h.wantEvent(item.ID, back.Generation, mayfly.WasRestored)
	}
}

func TestCleanDoesNotChangeARunningRestore(t *testing.T) {
	for s := expired; s < stages; s++ {
		h := open(t)
		item := h.at(s, 1)
		var before []string
		h.Hooks.Transition = fixture.BeforeTransition(func() { // copied, before the row is changed
			before = h.unnamed(item)
			_, err := h.support().Clean(context.Background(), batchOf(h.Now, item))
			h.Must(err)
			after := h.unnamed(item)
			if there := h.restored(item.ID); !there || len(after) != len(before) || len(after) == 0 {
				t.Errorf("%s: entry exists %t; %v, before %v", s, there, after, before)
			}
		})
		_, err := h.support().Item(context.Background(), h.request(item.ID), h.Now)
		h.Must(err)
		if before == nil {
			t.Fatalf("%s: nothing was tried", s)
		}
	}
}

func TestAnOldEntryThatLandsLateDoesNotEndALaterRestore(t *testing.T) {
	h := open(t)
	g, item := h.gate(), h.at(expired, 0)
	back, err := h.support().Item(context.Background(), h.request(item.ID), h.Now)
	h.Must(err)
	h.SetRow(engine.Restored, engine.RestoredKey(item.ID), binary.BigEndian.AppendUint64(nil, uint64(h.Now-1)))
	_, err = h.support().Clean(context.Background(), batchOf(h.Now, back))
	h.Must(err)
	if err := h.stranger(g, item.ID); err != nil {
		t.Fatalf("it serves until %s: %v", back.ServesUntil, err)
	}
}

func TestAnEntryThatCleanRemovesMeanwhileIsAddedAgain(t *testing.T) {
	h := open(t)
	g, item := h.gate(), h.at(expired, 1)
	h.Hooks.Transition = fixture.BeforeTransition(func() {
		h.SetRow(engine.Restored, engine.RestoredKey(item.ID), nil)
	})
	_, err := h.support().Item(context.Background(), h.request(item.ID), h.Now)
	h.Must(err)
	if err := h.stranger(g, item.ID); err != nil {
		t.Fatalf("restored, but not visible: %v", err)
	}
}
