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
)

// The result of every transition is unknown. Any of them may land after the restore
// has failed, and then names the copies.
func TestAFailedRestoreThatLandsLateLosesNothing(t *testing.T) {
	r := seeded(t)
	for s := expired; s < stages; s++ {
		h := open(t)
		item := h.item(s, 2)
		set, late := storetest.Prefix(h.real, func(c storetest.Call) storetest.Fault {
			return storetest.Fault{Fails: c.Op == storetest.Transition}
		})
		h.set = set
		_, err := h.support().Item(context.Background(), h.request(item.ID), h.now)
		if !errors.Is(err, mayfly.Unknown) || h.get(item.ID) != item || late.Failed() < 2 {
			t.Fatalf("%s: %v after %d lost responses", s, err, late.Failed())
		}
		landed, err := late.LandAll(context.Background(), r)
		h.must(err)
		row := h.get(item.ID)
		if row.State != mayfly.Active || row.Generation != item.Generation+1 {
			t.Fatalf("%s: %d landed: %+v", s, landed, row)
		}
		h.wantRead(row, hydrate.Hot)
		h.must(h.live(item.ID, 2*time.Hour, time.Minute))
		h.wantArchived(item.ID)
	}
}

func TestAChangeWithALostResponseIsRecognisedByItsNonce(t *testing.T) {
	for s := expired; s < stages; s++ {
		h := open(t)
		item := h.item(s, 1)
		set, late := storetest.Prefix(h.real, storetest.FailNth(5, storetest.Fault{Stage: 1, Silent: true})) // written, but the response is lost
		h.set = set
		back, err := h.support().Item(context.Background(), h.request(item.ID), h.now)
		h.must(err)
		if call := late.Calls()[4]; call.Op != storetest.Transition || late.Failed() != 1 {
			t.Fatalf("the call with the lost response is %+v", call)
		}
		if back.Generation != item.Generation+1 || back != h.get(item.ID) {
			t.Fatalf("%s: it was restored twice: %+v", s, back)
		}
	}
}

func TestARestoreWithoutItsReminderDoesNothing(t *testing.T) {
	h := open(t)
	item := h.item(cold, 1)
	set, _ := storetest.Prefix(h.real, func(c storetest.Call) storetest.Fault {
		return storetest.Fault{Fails: c.Op == storetest.Commit, Kind: mayfly.Unavailable}
	})
	h.set = set
	if _, err := h.support().Item(context.Background(), h.request(item.ID), h.now); !errors.Is(err, mayfly.Unavailable) || h.get(item.ID) != item {
		t.Fatalf("without the reminder: %v", err)
	}
	left, err := h.unnamed(item)
	h.must(err)
	if len(left) > 0 {
		t.Errorf("media were copied before the reminder was durable: %v", left)
	}
}

// slow is a ledger whose first transition has an unknown result and lands at the
// second read after it.
type slow struct {
	store.Ledger
	late  []mayfly.Change
	reads int
}

func (s *slow) Transition(ctx context.Context, changes []mayfly.Change) ([]store.Outcome, error) {
	if s.late == nil {
		s.late = changes
		return []store.Outcome{{Result: store.InDoubt}}, nil
	}
	return s.Ledger.Transition(ctx, changes)
}

func (s *slow) Get(ctx context.Context, ids ...mayfly.ID) ([]store.Found, error) {
	if s.late != nil {
		if s.reads++; s.reads == 2 {
			if _, err := s.Ledger.Transition(ctx, s.late); err != nil {
				return nil, err
			}
		}
	}
	return s.Ledger.Get(ctx, ids...)
}

func TestAChangeThatLandsBetweenTwoRoundsIsTheSameRestore(t *testing.T) {
	for s := expired; s < stages; s++ {
		h := open(t)
		item := h.item(s, 1)
		h.set.Ledger = &slow{Ledger: h.real.Ledger}
		back, err := h.support().Item(context.Background(), h.request(item.ID), h.now)
		h.must(err)
		if back != h.get(item.ID) || back.State != mayfly.Active {
			t.Fatalf("%s: %+v", s, back)
		}
		h.wantRead(back, hydrate.Hot)
		h.wantEvent(item.ID, back.Generation, mayfly.WasRestored)
	}
}

func TestCleanDoesNotChangeARunningRestore(t *testing.T) {
	for s := expired; s < stages; s++ {
		h := open(t)
		item := h.item(s, 1)
		var before []string
		h.set.Ledger = &hookedLedger{Ledger: h.real.Ledger, before: func(int) { // copied, before the row is changed
			var err error
			before, err = h.unnamed(item)
			h.must(err)
			_, err = h.support().Clean(context.Background(), batchOf(h.now, item))
			h.must(err)
			after, err := h.unnamed(item)
			h.must(err)
			if there, err := h.restoredEntry(item.ID); !there || err != nil || len(after) != len(before) || len(after) == 0 {
				t.Errorf("%s: entry exists %t, %v; %v, before %v", s, there, err, after, before)
			}
		}}
		_, err := h.support().Item(context.Background(), h.request(item.ID), h.now)
		h.must(err)
		if before == nil {
			t.Fatalf("%s: nothing was tried", s)
		}
	}
}

func TestAnOldEntryThatLandsLateDoesNotEndALaterRestore(t *testing.T) {
	h := open(t)
	g, item := h.gate(), h.item(expired, 0)
	back, err := h.support().Item(context.Background(), h.request(item.ID), h.now)
	h.must(err)
	var b store.Batch
	b.Put(engine.Restored, engine.RestoredKey(item.ID), binary.BigEndian.AppendUint64(nil, uint64(h.now-1)), 0)
	h.must(h.real.Writer.Commit(context.Background(), &b))
	_, err = h.support().Clean(context.Background(), batchOf(h.now, back))
	h.must(err)
	if err := h.stranger(g, item.ID); err != nil {
		t.Fatalf("it serves until %s: %v", back.ServesUntil, err)
	}
}

func TestAnEntryThatCleanRemovesMeanwhileIsAddedAgain(t *testing.T) {
	h := open(t)
	g, item := h.gate(), h.item(expired, 1)
	h.set.Ledger = &hookedLedger{Ledger: h.real.Ledger, before: func(int) {
		var b store.Batch
		b.Delete(engine.Restored, engine.RestoredKey(item.ID))
		h.must(h.real.Writer.Commit(context.Background(), &b))
	}}
	_, err := h.support().Item(context.Background(), h.request(item.ID), h.now)
	h.must(err)
	if err := h.stranger(g, item.ID); err != nil {
		t.Fatalf("restored, but not visible: %v", err)
	}
}
