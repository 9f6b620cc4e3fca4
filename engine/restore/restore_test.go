package restore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/gate"
	"github.com/mayflyhq/mayfly/engine/hydrate"
	"github.com/mayflyhq/mayfly/engine/restore"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// eachStage runs a test with an item at every stage.
func eachStage(t *testing.T, test func(h *testFixture, item mayfly.Item)) {
	t.Helper()
	for s := range stages {
		for _, media := range []int{2, 0} {
			t.Run(fmt.Sprintf("%s, %d media", s, media), func(t *testing.T) {
				h := open(t)
				test(h, h.item(s, media))
			})
		}
	}
}

// stranger opens the item without an account.
func (h *testFixture) stranger(g *gate.Gate, id mayfly.ID) error {
	_, err := g.Open(context.Background(), id, mayfly.Viewer{}, h.now)
	return err
}

func (h *testFixture) gate() *gate.Gate {
	h.Helper()
	g, err := gate.New(context.Background(), h.real, gate.Options{})
	h.must(err)
	h.Cleanup(func() { _ = g.Close() })
	return g
}

func (h *testFixture) wantRead(item mayfly.Item, from hydrate.Tier) {
	h.Helper()
	tier, err := h.readable(item)
	h.must(err)
	if item.Media > 0 && tier != from {
		h.Fatalf("read from %s, not from %s", tier, from)
	}
}

// wantArchived checks that the item is cold and nothing else of it is left.
func (h *testFixture) wantArchived(id mayfly.ID) {
	h.Helper()
	item := h.get(id)
	if item.State != mayfly.Cold {
		h.Fatalf("not cold: %+v", item)
	}
	h.wantRead(item, hydrate.Cold)
	left, err := h.unnamed(item)
	h.must(err)
	there, err := h.restoredEntry(id)
	h.must(err)
	if len(left) > 0 || there {
		h.Fatalf("left behind: %s, in the restored set: %t", left, there)
	}
}

func (h *testFixture) wantEvent(id mayfly.ID, g mayfly.Generation, verb mayfly.Verb) {
	h.Helper()
	events, err := h.events(id)
	h.must(err)
	if events[mayfly.EventKey{ID: id, Generation: g, Product: mayfly.Story, Verb: verb}] == 0 {
		h.Errorf("no event %s of generation %d: %v", verb, g, events)
	}
}

func TestARestoredStoryServesUntilItsEndAndIsThenArchived(t *testing.T) {
	eachStage(t, func(h *testFixture, item mayfly.Item) {
		g := h.gate()
		if err := h.stranger(g, item.ID); !errors.Is(err, mayfly.Gone) {
			h.Fatalf("before: %v", err)
		}
		req := h.request(item.ID)
		back, err := h.support().Item(context.Background(), req, h.now)
		h.must(err)
		if back.State != mayfly.Active || back.ServesUntil != req.Until || back.Cause != mayfly.BySupport || back.Keys.Cold != item.Keys.Cold {
			h.Fatalf("%+v", back)
		}
		if item.Media > 0 && back.Keys.Hot != back.Generation {
			h.Fatalf("restored to old keys: %+v", back)
		}
		if item.State == mayfly.Active { // not swept before
			h.wantEvent(item.ID, item.Generation+1, mayfly.WasExpired)
		}
		h.wantRead(back, hydrate.Hot)
		for _, at := range []mayfly.Instant{h.now, req.Until - 1} {
			h.now = at
			if err := h.stranger(g, item.ID); err != nil {
				h.Fatalf("while it serves: %v", err)
			}
		}
		h.now = req.Until
		if err := h.stranger(g, item.ID); !errors.Is(err, mayfly.Gone) {
			h.Fatalf("at its end: %v", err)
		}
		h.must(h.live(item.ID, 2*time.Hour, time.Minute))
		h.wantArchived(item.ID)
		h.wantEvent(item.ID, back.Generation, mayfly.WasRestored)
		h.wantEvent(item.ID, back.Generation+1, mayfly.WasExpired)
	})
}

func TestEveryRestoreIsAuditedWithItsOutcome(t *testing.T) {
	h := open(t)
	item := h.item(expired, 1)
	support, req := h.support(), h.request(item.ID)
	_, err := support.Item(context.Background(), req, h.now)
	h.must(err)
	if _, err := support.Item(context.Background(), req, h.now); !errors.Is(err, mayfly.Conflict) {
		t.Fatalf("a serving item was restored: %v", err)
	}
	var outcomes []audit.Outcome
	report, err := audit.Verify(context.Background(), h.real.Rows, func(r audit.Record) error {
		if r.Entry.Actor != req.By || r.Entry.Reason != req.Reason || r.Entry.Subject.Item != item.ID || r.Entry.Verb != audit.Restore {
			t.Errorf("%+v", r.Entry)
		}
		outcomes = append(outcomes, r.Entry.Outcome)
		return nil
	})
	h.must(err)
	if want := fmt.Sprint([]audit.Outcome{audit.Intended, audit.Done, audit.Intended, audit.Refused}); !report.Sound() || fmt.Sprint(outcomes) != want {
		t.Errorf("%v, want %s; %v", outcomes, want, report.Findings)
	}
}

func TestForbiddenRestoresAreRefused(t *testing.T) {
	h := open(t)
	support := h.support()
	held, deleted, serving := h.item(expired, 1), h.item(cold, 1), mayfly.Item{}
	h.must(h.change(held.ID, mayfly.Change{Hold: mayfly.SetHold}))
	h.must(h.delete(deleted.ID))
	purged, err := h.publish(1, mayfly.Purge)
	h.must(err)
	h.now = purged.ID.Deadline() // not swept yet
	old, hot := h.item(cold, 1), h.item(expired, 1)
	h.now = old.End().Add(30*24*time.Hour + 1)
	h.now = max(h.now, hot.End().Add(30*24*time.Hour+1))
	serving, err = h.publish(1, mayfly.Archive)
	h.must(err)
	good := h.request(hot.ID)
	with := func(change func(*restore.Request)) restore.Request {
		req := good
		change(&req)
		return req
	}
	for name, c := range map[string]struct {
		req  restore.Request
		want mayfly.Kind
	}{
		"no actor":     {with(func(r *restore.Request) { r.By = " " }), mayfly.Invalid},
		"no reason":    {with(func(r *restore.Request) { r.Reason = "" }), mayfly.Invalid},
		"too soon":     {with(func(r *restore.Request) { r.Until = h.now.Add(5*time.Minute) - 1 }), mayfly.Invalid},
		"no such item": {with(func(r *restore.Request) { r.ID[15] ^= 0x10 }), mayfly.NotFound},
		"held":         {with(func(r *restore.Request) { r.ID = held.ID }), mayfly.Conflict},
		"deleted":      {with(func(r *restore.Request) { r.ID = deleted.ID }), mayfly.Gone},
		"purged":       {with(func(r *restore.Request) { r.ID = purged.ID }), mayfly.Gone},
		"serving":      {with(func(r *restore.Request) { r.ID = serving.ID }), mayfly.Conflict},
		"too late":     {with(func(r *restore.Request) { r.ID = old.ID }), mayfly.Gone},
	} {
		before := h.get(c.req.ID)
		_, err := support.Item(context.Background(), c.req, h.now)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
		var e *mayfly.Error
		if c.want != mayfly.NotFound && (!errors.As(err, &e) || e.Hint == "") {
			t.Errorf("%s: %v has no hint", name, err)
		}
		there, err := h.restoredEntry(c.req.ID)
		h.must(err)
		if h.get(c.req.ID) != before || there {
			t.Errorf("%s: the item was changed", name)
		}
	}
	if _, err := support.Item(context.Background(), good, h.now); err != nil {
		t.Errorf("a hot item has no limit: %v", err)
	}
}

func TestItemsOfAnErasedAccountAreNotRestored(t *testing.T) {
	h := open(t)
	item := h.item(expired, 1)
	_, _, err := h.real.Rows.Swap(context.Background(), engine.Erased, engine.ErasedKey(item.Owner), nil, []byte("erased"), 0)
	h.must(err)
	if _, err := h.support().Item(context.Background(), h.request(item.ID), h.now); !errors.Is(err, mayfly.Gone) || h.get(item.ID) != item {
		t.Fatalf("%v", err)
	}
}

// hookedLedger calls before at the start of every Transition.
type hookedLedger struct {
	store.Ledger
	before func(call int)
	calls  int
}

func (m *hookedLedger) Transition(ctx context.Context, changes []mayfly.Change) ([]store.Outcome, error) {
	m.calls++
	m.before(m.calls)
	return m.Ledger.Transition(ctx, changes)
}

func TestADeleteThatRacesARestoreWinsAndNothingIsLeft(t *testing.T) {
	eachStage(t, func(h *testFixture, item mayfly.Item) {
		h.set.Ledger = &hookedLedger{Ledger: h.real.Ledger, before: func(call int) {
			if call == 1 {
				h.must(h.delete(item.ID))
			}
		}}
		if _, err := h.support().Item(context.Background(), h.request(item.ID), h.now); !errors.Is(err, mayfly.Gone) {
			h.Fatalf("%v", err)
		}
		for n := range int(item.Media) { // the copies are deleted at once
			if _, err := h.real.Hot.Stat(context.Background(), item.MediaKey(item.Generation+1, n)); !errors.Is(err, mayfly.NotFound) {
				h.Errorf("the copy of medium %d was left: %v", n, err)
			}
		}
		h.must(h.live(item.ID, time.Hour, time.Minute))
		row := h.get(item.ID)
		left, err := h.unnamed(row)
		h.must(err)
		if there, err := h.restoredEntry(item.ID); row.State != mayfly.Deleted || len(left) > 0 || there || err != nil {
			h.Fatalf("%s, left %v, in the restored set: %t, %v", row.State, left, there, err)
		}
	})
}

func TestARestoreThatRacesAnArchiveSucceeds(t *testing.T) {
	eachStage(t, func(h *testFixture, item mayfly.Item) {
		if item.State == mayfly.Active || item.State == mayfly.Cold {
			return
		}
		h.set.Ledger = &hookedLedger{Ledger: h.real.Ledger, before: func(call int) {
			if call == 1 {
				h.must(h.archive(item.ID))
			}
		}}
		back, err := h.support().Item(context.Background(), h.request(item.ID), h.now)
		h.must(err)
		if back.State != mayfly.Active || item.Media > 0 && back.Keys.Cold == 0 {
			h.Fatalf("%+v", back)
		}
		h.wantRead(back, hydrate.Hot)
		h.must(h.live(item.ID, 3*time.Hour, time.Minute))
		h.wantArchived(item.ID)
	})
}

func TestOfTwoConcurrentRestoresOneWins(t *testing.T) {
	for s := range stages {
		h := open(t)
		item := h.item(s, 2)
		other := h.support()
		var won mayfly.Item
		h.set.Ledger = &hookedLedger{Ledger: h.real.Ledger, before: func(call int) {
			if call == 1 {
				var err error
				won, err = other.Item(context.Background(), h.request(item.ID), h.now)
				h.must(err)
			}
		}}
		if _, err := h.support().Item(context.Background(), h.request(item.ID), h.now); !errors.Is(err, mayfly.Conflict) {
			t.Fatalf("%s: %v", s, err)
		}
		if h.get(item.ID) != won {
			t.Fatalf("%s: the row of the first restore was changed", s)
		}
		h.wantRead(won, hydrate.Hot)
	}
}

// lateDeletes is a tier that collects deletes, which the test runs later.
type lateDeletes struct {
	store.Blobs
	late []mayfly.BlobKey
}

func (l *lateDeletes) Delete(_ context.Context, keys ...mayfly.BlobKey) error {
	l.late = append(l.late, keys...)
	return nil
}

func TestALateDeleteOfCleanLeavesTheItemReadable(t *testing.T) {
	for _, moment := range []int{1, 2} { // before the row is changed, and after the restore
		h := open(t)
		item := h.item(cold, 2)
		slow := &lateDeletes{Blobs: h.real.Hot}
		h.set.Hot = slow
		_, err := h.support().Clean(context.Background(), batchOf(h.now, item))
		h.must(err)
		if len(slow.late) == 0 {
			t.Fatal("Clean deleted nothing")
		}
		land := func() { h.must(h.real.Hot.Delete(context.Background(), slow.late...)) }
		h.set.Hot = h.real.Hot
		h.set.Ledger = &hookedLedger{Ledger: h.real.Ledger, before: func(int) {
			if moment == 1 {
				land()
			}
		}}
		back, err := h.support().Item(context.Background(), h.request(item.ID), h.now)
		h.must(err)
		from := hydrate.Hot
		if moment == 2 {
			land()
			from = hydrate.Cold
		}
		h.wantRead(back, from)
	}
}

func TestTheEndOfARestoreDoesNotEndALaterOne(t *testing.T) {
	h := open(t)
	item := h.item(expired, 1)
	first := h.request(item.ID)
	_, err := h.support().Item(context.Background(), first, h.now)
	h.must(err)
	h.now = first.Until
	second := h.request(item.ID) // before the reminder of the first
	back, err := h.support().Item(context.Background(), second, h.now)
	h.must(err)
	h.must(h.live(item.ID, 10*time.Minute, time.Minute))
	if there, err := h.restoredEntry(item.ID); !there || err != nil || h.get(item.ID) != back {
		t.Fatalf("the later restore was cleaned: %t %v %+v", there, err, h.get(item.ID))
	}
	h.wantRead(back, hydrate.Hot)
	h.must(h.live(item.ID, 2*time.Hour, time.Minute))
	h.wantArchived(item.ID)
}

func TestADamagedHotCopyIsReplacedByTheColdOneOrRefused(t *testing.T) {
	for _, s := range []stage{named, expired} {
		h := open(t)
		item := h.item(s, 1)
		_, err := h.real.Hot.Put(context.Background(), item.MediaKey(item.Keys.Hot, 0), &zeros{left: len(content(0))})
		h.must(err)
		back, err := h.support().Item(context.Background(), h.request(item.ID), h.now)
		if s == expired {
			if !errors.Is(err, mayfly.Corrupt) || h.get(item.ID) != item {
				t.Fatalf("wrong bytes were restored: %v", err)
			}
			continue
		}
		h.must(err)
		h.wantRead(back, hydrate.Hot)
	}
}

func batchOf(now mayfly.Instant, items ...mayfly.Item) walk.Batch {
	return walk.Batch{Items: items, Now: now, Repeat: true}
}
