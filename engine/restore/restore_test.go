package restore_test

import (
	"bytes"
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
	"github.com/mayflyhq/mayfly/test/fixture"
)

// eachStage runs a test with an item at every stage.
func eachStage(t *testing.T, test func(h *env, item mayfly.Item)) {
	t.Helper()
	for s := range stages {
		for _, media := range []int{2, 0} {
			t.Run(fmt.Sprintf("%s, %d media", s, media), func(t *testing.T) {
				h := open(t)
				test(h, h.at(s, media))
			})
		}
	}
}

// beforeFirst calls f before the first transition of the Restore under test.
func (h *env) beforeFirst(f func()) {
	did := false
	h.Hooks.Transition = fixture.BeforeTransition(func() {
		if !did {
			did = true
			f()
		}
	})
}

// stranger opens the item without an account.
func (h *env) stranger(g *gate.Gate, id mayfly.ID) error {
	_, err := g.Open(context.Background(), id, mayfly.Viewer{}, h.Now)
	return err
}

func (h *env) gate() *gate.Gate {
	h.Helper()
	g, err := gate.New(context.Background(), h.Real, gate.Options{})
	h.Must(err)
	h.Cleanup(func() { _ = g.Close() })
	return g
}

func (h *env) wantRead(item mayfly.Item, from hydrate.Tier) {
	h.Helper()
	if tier := h.Readable(item); item.Media > 0 && tier != from {
		h.Fatalf("read from %s, not from %s", tier, from)
	}
}

// wantArchived checks that the item is cold and nothing else of it is left.
func (h *env) wantArchived(id mayfly.ID) {
	h.Helper()
	item := h.Row(id)
	if item.State != mayfly.Cold {
		h.Fatalf("not cold: %+v", item)
	}
	h.wantRead(item, hydrate.Cold)
	left := h.unnamed(item)
	there := h.restored(id)
	if len(left) > 0 || there {
		h.Fatalf("left behind: %s, in the restored set: %t", left, there)
	}
}

func (h *env) wantEvent(id mayfly.ID, g mayfly.Generation, verb mayfly.Verb) {
	h.Helper()
	events := h.events(id)
	if _, found := events[mayfly.EventKey{ID: id, Generation: g, Product: mayfly.Story, Verb: verb}]; !found {
		h.Errorf("no event %s of generation %d: %v", verb, g, events)
	}
}

func TestARestoredStoryServesUntilItsEndAndIsThenArchived(t *testing.T) {
	eachStage(t, func(h *env, item mayfly.Item) {
		g := h.gate()
		if err := h.stranger(g, item.ID); !errors.Is(err, mayfly.Gone) {
			h.Fatalf("before: %v", err)
		}
		req := h.request(item.ID)
		back, err := h.support().Item(context.Background(), req, h.Now)
		h.Must(err)
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
		for _, at := range []mayfly.Instant{h.Now, req.Until - 1} {
			h.Now = at
			if err := h.stranger(g, item.ID); err != nil {
				h.Fatalf("while it serves: %v", err)
			}
		}
		h.Now = req.Until
		if err := h.stranger(g, item.ID); !errors.Is(err, mayfly.Gone) {
			h.Fatalf("at its end: %v", err)
		}
		h.live(item.ID, 2*time.Hour, time.Minute)
		h.wantArchived(item.ID)
		h.wantEvent(item.ID, back.Generation, mayfly.WasRestored)
		h.wantEvent(item.ID, back.Generation+1, mayfly.WasExpired)
	})
}

func TestEveryRestoreIsAuditedWithItsOutcome(t *testing.T) {
	h := open(t)
	item := h.at(expired, 1)
	support, req := h.support(), h.request(item.ID)
	_, err := support.Item(context.Background(), req, h.Now)
	h.Must(err)
	if _, err := support.Item(context.Background(), req, h.Now); !errors.Is(err, mayfly.Conflict) {
		t.Fatalf("a serving item was restored: %v", err)
	}
	var outcomes []audit.Outcome
	report, err := audit.Verify(context.Background(), h.Real.Rows, func(r audit.Record) error {
		if r.Entry.Actor != req.By || r.Entry.Reason != req.Reason || r.Entry.Subject.Item != item.ID || r.Entry.Verb != audit.Restore {
			t.Errorf("%+v", r.Entry)
		}
		outcomes = append(outcomes, r.Entry.Outcome)
		return nil
	})
	h.Must(err)
	if want := fmt.Sprint([]audit.Outcome{audit.Intended, audit.Done, audit.Intended, audit.Refused}); !report.Sound() || fmt.Sprint(outcomes) != want {
		t.Errorf("%v, want %s; %v", outcomes, want, report.Findings)
	}
}

func TestForbiddenRestoresAreRefused(t *testing.T) {
	h := open(t)
	support := h.support()
	held, deleted, serving := h.at(expired, 1), h.at(cold, 1), mayfly.Item{}
	h.Hold(held.ID)
	h.delete(deleted.ID)
	purge := h.Draft()
	purge.Fate = mayfly.Purge
	purged := h.Publish(purge, h.Now, fixture.Media(1)...)
	h.Now = purged.ID.Deadline() // not swept yet
	old, hot := h.at(cold, 1), h.at(expired, 1)
	h.Now = old.End().Add(30*24*time.Hour + 1)
	h.Now = max(h.Now, hot.End().Add(30*24*time.Hour+1))
	serving = h.Story(1)
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
		"no actor":     {with(func(r *restore.Request) { r.By = audit.Actor{Subject: " "} }), mayfly.Invalid},
		"no reason":    {with(func(r *restore.Request) { r.Reason = "" }), mayfly.Invalid},
		"too soon":     {with(func(r *restore.Request) { r.Until = h.Now.Add(5*time.Minute) - 1 }), mayfly.Invalid},
		"no such item": {with(func(r *restore.Request) { r.ID[15] ^= 0x10 }), mayfly.NotFound},
		"held":         {with(func(r *restore.Request) { r.ID = held.ID }), mayfly.Conflict},
		"deleted":      {with(func(r *restore.Request) { r.ID = deleted.ID }), mayfly.Gone},
		"purged":       {with(func(r *restore.Request) { r.ID = purged.ID }), mayfly.Gone},
		"serving":      {with(func(r *restore.Request) { r.ID = serving.ID }), mayfly.Conflict},
		"too late":     {with(func(r *restore.Request) { r.ID = old.ID }), mayfly.Gone},
	} {
		before, _ := h.Find(c.req.ID)
		_, err := support.Item(context.Background(), c.req, h.Now)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
		var e *mayfly.Error
		if c.want != mayfly.NotFound && (!errors.As(err, &e) || e.Hint == "") {
			t.Errorf("%s: %v has no hint", name, err)
		}
		if after, _ := h.Find(c.req.ID); after != before || h.restored(c.req.ID) {
			t.Errorf("%s: the item was changed", name)
		}
	}
	if _, err := support.Item(context.Background(), good, h.Now); err != nil {
		t.Errorf("a hot item has no limit: %v", err)
	}
}

func TestItemsOfAnErasedAccountAreNotRestored(t *testing.T) {
	h := open(t)
	item := h.at(expired, 1)
	_, _, err := h.Real.Rows.Swap(context.Background(), engine.Erased, engine.ErasedKey(item.Owner), nil, []byte("erased"), 0)
	h.Must(err)
	if _, err := h.support().Item(context.Background(), h.request(item.ID), h.Now); !errors.Is(err, mayfly.Gone) || h.Row(item.ID) != item {
		t.Fatalf("%v", err)
	}
}

func TestADeleteThatRacesARestoreWinsAndNothingIsLeft(t *testing.T) {
	eachStage(t, func(h *env, item mayfly.Item) {
		h.beforeFirst(func() {
			h.delete(item.ID)
		})
		if _, err := h.support().Item(context.Background(), h.request(item.ID), h.Now); !errors.Is(err, mayfly.Gone) {
			h.Fatalf("%v", err)
		}
		for n := range int(item.Media) { // the copies are deleted at once
			if _, err := h.Real.Hot.Stat(context.Background(), item.MediaKey(item.Generation+1, n)); !errors.Is(err, mayfly.NotFound) {
				h.Errorf("the copy of medium %d was left: %v", n, err)
			}
		}
		h.live(item.ID, time.Hour, time.Minute)
		row := h.Row(item.ID)
		left := h.unnamed(row)
		if there := h.restored(item.ID); row.State != mayfly.Deleted || len(left) > 0 || there {
			h.Fatalf("%s, left %v, in the restored set: %t", row.State, left, there)
		}
	})
}

func TestARestoreThatRacesAnArchiveSucceeds(t *testing.T) {
	eachStage(t, func(h *env, item mayfly.Item) {
		if item.State == mayfly.Active || item.State == mayfly.Cold {
			return
		}
		h.beforeFirst(func() {
			h.archive(item.ID)
		})
		back, err := h.support().Item(context.Background(), h.request(item.ID), h.Now)
		h.Must(err)
		if back.State != mayfly.Active || item.Media > 0 && back.Keys.Cold == 0 {
			h.Fatalf("%+v", back)
		}
		h.wantRead(back, hydrate.Hot)
		h.live(item.ID, 3*time.Hour, time.Minute)
		h.wantArchived(item.ID)
	})
}

func TestOfTwoConcurrentRestoresOneWins(t *testing.T) {
	for s := range stages {
		h := open(t)
		item := h.at(s, 2)
		other := h.support()
		var won mayfly.Item
		h.beforeFirst(func() {
			var err error
			won, err = other.Item(context.Background(), h.request(item.ID), h.Now)
			h.Must(err)
		})
		if _, err := h.support().Item(context.Background(), h.request(item.ID), h.Now); !errors.Is(err, mayfly.Conflict) {
			t.Fatalf("%s: %v", s, err)
		}
		if h.Row(item.ID) != won {
			t.Fatalf("%s: the row of the first restore was changed", s)
		}
		h.wantRead(won, hydrate.Hot)
	}
}

func TestALateDeleteOfCleanLeavesTheItemReadable(t *testing.T) {
	for _, moment := range []int{1, 2} { // before the row is changed, and after the restore
		h := open(t)
		item := h.at(cold, 2)
		var late []mayfly.BlobKey // deletes that the test runs later
		h.Hooks.Hot.Delete = func(_ context.Context, keys []mayfly.BlobKey, _ func() error) error {
			late = append(late, keys...)
			return nil
		}
		_, err := h.support().Clean(context.Background(), batchOf(h.Now, item))
		h.Must(err)
		if len(late) == 0 {
			t.Fatal("Clean deleted nothing")
		}
		land := func() { h.Must(h.Real.Hot.Delete(context.Background(), late...)) }
		h.Hooks.Hot.Delete = nil
		if moment == 1 {
			h.beforeFirst(land)
		}
		back, err := h.support().Item(context.Background(), h.request(item.ID), h.Now)
		h.Must(err)
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
	item := h.at(expired, 1)
	first := h.request(item.ID)
	_, err := h.support().Item(context.Background(), first, h.Now)
	h.Must(err)
	h.Now = first.Until
	second := h.request(item.ID) // before the reminder of the first
	back, err := h.support().Item(context.Background(), second, h.Now)
	h.Must(err)
	h.live(item.ID, 10*time.Minute, time.Minute)
	if there := h.restored(item.ID); !there || h.Row(item.ID) != back {
		t.Fatalf("the later restore was cleaned: %t %+v", there, h.Row(item.ID))
	}
	h.wantRead(back, hydrate.Hot)
	h.live(item.ID, 2*time.Hour, time.Minute)
	h.wantArchived(item.ID)
}

func TestADamagedHotCopyIsReplacedByTheColdOneOrRefused(t *testing.T) {
	for _, s := range []stage{named, expired} {
		h := open(t)
		item := h.at(s, 1)
		_, err := h.Real.Hot.Put(context.Background(), item.MediaKey(item.Keys.Hot, 0), bytes.NewReader(make([]byte, len(fixture.Medium(0)))))
		h.Must(err)
		back, err := h.support().Item(context.Background(), h.request(item.ID), h.Now)
		if s == expired {
			if !errors.Is(err, mayfly.Corrupt) || h.Row(item.ID) != item {
				t.Fatalf("wrong bytes were restored: %v", err)
			}
			continue
		}
		h.Must(err)
		h.wantRead(back, hydrate.Hot)
	}
}

func batchOf(now mayfly.Instant, items ...mayfly.Item) walk.Batch {
	return walk.Batch{Items: items, Now: now, Repeat: true}
}
