package restore_test

import (
	"context"
	"errors"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/hydrate"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/storetest"
)

func TestAHeldItemIsHiddenAndKeptUntilReleased(t *testing.T) {
	eachStage(t, func(h *testFixture, item mayfly.Item) {
		g, author, moderator := h.gate(), mayfly.ViewerOf(h.owner), mayfly.ModeratorOf(mayfly.UserOf("test", "ben"))
		opens := func(v mayfly.Viewer) bool {
			_, err := g.Open(context.Background(), item.ID, v, h.now)
			return err == nil
		}
		if !opens(author) || !opens(moderator) { // this also fills the cache
			h.Fatal("it is not readable before")
		}
		support := h.support()
		for range 2 { // the second hold changes only the generation
			h.must(support.Hold(context.Background(), item.ID, "ben", "case 9", h.now))
		}
		held := h.get(item.ID)
		if !held.Held || held.Generation != item.Generation+2 || held.State != item.State || opens(author) || !opens(moderator) {
			h.Fatalf("%+v, author %t, moderator %t", held, opens(author), opens(moderator))
		}
		h.wantEvent(item.ID, held.Generation, mayfly.WasHeld)
		h.must(h.live(item.ID, 3*time.Hour, time.Minute)) // whatever the reminders do
		if h.get(item.ID).State > max(item.State, mayfly.ExpiredHot) {
			h.Fatalf("held, but changed: %+v", h.get(item.ID))
		}
		_, err := h.readable(h.get(item.ID))
		h.must(err)
		for range 2 {
			h.must(support.Release(context.Background(), item.ID, "ben", "case 9 is closed", h.now))
		}
		if row := h.get(item.ID); row.Held || !opens(author) {
			h.Fatalf("released: %+v", row)
		}
		h.must(h.live(item.ID, 2*time.Hour, time.Minute))
		h.wantArchived(item.ID)
	})
}

func TestAHeldItemThatItsAuthorDeletesKeepsItsBytesUntilReleased(t *testing.T) {
	eachStage(t, func(h *testFixture, item mayfly.Item) {
		support := h.support()
		h.must(support.Hold(context.Background(), item.ID, "ben", "case 9", h.now))
		h.must(h.delete(item.ID))
		h.must(h.live(item.ID, 3*time.Hour, time.Minute))
		row := h.get(item.ID)
		if row.State != mayfly.Deleted || !row.Held {
			h.Fatalf("%+v", row)
		}
		alive := row
		alive.State = mayfly.ExpiredHot // hydrate does not open deleted items; this checks the bytes
		_, err := h.readable(alive)
		h.must(err)
		h.must(support.Release(context.Background(), item.ID, "ben", "case 9 is closed", h.now))
		h.must(h.live(item.ID, time.Hour, time.Minute))
		left, err := h.unnamed(h.get(item.ID))
		h.must(err)
		if row := h.get(item.ID); row.State != mayfly.Deleted || len(left) > 0 {
			h.Fatalf("%+v, left %v", row, left)
		}
		if err := support.Hold(context.Background(), item.ID, "ben", "case 10", h.now); !errors.Is(err, mayfly.Gone) {
			h.Fatalf("a deleted item was held: %v", err)
		}
	})
}

func TestAHoldSucceedsWhenTheRowChangesMeanwhile(t *testing.T) {
	h := open(t)
	item := h.item(expired, 1)
	h.set.Ledger = &hookedLedger{Ledger: h.real.Ledger, before: func(call int) {
		if call == 1 {
			h.must(h.archive(item.ID))
		}
	}}
	h.must(h.support().Hold(context.Background(), item.ID, "ben", "case 9", h.now))
	if row := h.get(item.ID); !row.Held || row.State != mayfly.Cold {
		t.Fatalf("%+v", row)
	}
}

func TestARestoreThatRacesAHoldIsRefused(t *testing.T) {
	for s := range stages {
		h := open(t)
		item := h.item(s, 1)
		other := h.support()
		h.set.Ledger = &hookedLedger{Ledger: h.real.Ledger, before: func(call int) {
			if call == 1 {
				h.must(other.Hold(context.Background(), item.ID, "ben", "case 9", h.now))
			}
		}}
		if _, err := h.support().Item(context.Background(), h.request(item.ID), h.now); !errors.Is(err, mayfly.Conflict) {
			t.Fatalf("%s: %v", s, err)
		}
		h.must(h.live(item.ID, 2*time.Hour, time.Minute))
		if row := h.get(item.ID); !row.Held || row.ServesUntil != 0 {
			t.Fatalf("%s: %+v", s, row)
		}
		h.must(other.Release(context.Background(), item.ID, "ben", "closed", h.now))
		h.must(h.live(item.ID, 2*time.Hour, time.Minute))
		h.wantArchived(item.ID)
	}
}

func TestARestoredItemThatIsHeldStillExpires(t *testing.T) {
	h := open(t)
	item := h.item(cold, 1)
	support, req := h.support(), h.request(item.ID)
	_, err := support.Item(context.Background(), req, h.now)
	h.must(err)
	h.must(support.Hold(context.Background(), item.ID, "ben", "case 9", h.now))
	h.must(h.live(item.ID, 2*time.Hour, time.Minute))
	if row := h.get(item.ID); row.State != mayfly.ExpiredHot || !row.Held {
		t.Fatalf("%+v", row)
	}
	h.wantRead(h.get(item.ID), hydrate.Hot)
	h.must(support.Release(context.Background(), item.ID, "ben", "closed", h.now))
	h.must(h.live(item.ID, 2*time.Hour, time.Minute))
	h.wantArchived(item.ID)
}

func TestHoldAndReleaseAreAuditedAndNeedAnActorAndAReason(t *testing.T) {
	h := open(t)
	item := h.item(expired, 0)
	support := h.support()
	for _, do := range []func(by, why string) error{
		func(by, why string) error { return support.Hold(context.Background(), item.ID, by, why, h.now) },
		func(by, why string) error {
			return support.Release(context.Background(), item.ID, by, why, h.now)
		},
	} {
		before := h.get(item.ID)
		if err := do("", "why"); !errors.Is(err, mayfly.Invalid) {
			t.Errorf("without an actor: %v", err)
		}
		if err := do("ben", ""); !errors.Is(err, mayfly.Invalid) || h.get(item.ID) != before {
			t.Errorf("without a reason: %v", err)
		}
		h.must(do("ben", "why"))
	}
	var verbs []audit.Verb
	_, err := audit.Verify(context.Background(), h.real.Rows, func(r audit.Record) error {
		if r.Entry.Outcome == audit.Done {
			verbs = append(verbs, r.Entry.Verb)
		}
		return nil
	})
	h.must(err)
	if len(verbs) != 2 || verbs[0] != audit.Hold || verbs[1] != audit.Release {
		t.Errorf("%v", verbs)
	}
}

// deaf is a Signals whose Publish always fails.
type deaf struct{ store.Signals }

func (deaf) Publish(context.Context, store.Signal) error {
	return mayfly.Errorf(mayfly.Unavailable, "signals are unavailable")
}

func TestAHoldThatCannotNotifyCachesWaitsUntilTheirEntriesExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t)
		item := h.item(expired, 0)
		h.set.Signals = deaf{h.real.Signals}
		h.options.Timeout = 50 * time.Millisecond
		begun := time.Now()
		h.must(h.support().Hold(context.Background(), item.ID, "ben", "case 9", h.now))
		if took := time.Since(begun); took < store.CacheWait {
			t.Errorf("returned after %s, while a cache may still show the item", took)
		}
		if !h.get(item.ID).Held {
			t.Error("it is not held")
		}
	})
}

// noting is a writer that records the reminders written through it.
type noting struct {
	store.Writer
	noted map[remind.Step]mayfly.Instant // the first due time of each step
}

func (n noting) Commit(ctx context.Context, b *store.Batch) error {
	for _, s := range b.Stages() {
		for _, put := range s.Puts {
			r, err := remind.Read(store.Row{Clustering: put.Key.Clustering, Value: put.Value})
			if put.Table != remind.Reminders || err != nil {
				continue
			}
			if first, known := n.noted[r.Step]; !known || r.Due < first {
				n.noted[r.Step] = r.Due
			}
		}
	}
	return n.Writer.Commit(ctx, b)
}

func TestAReleaseWritesRemindersForTheMissedSteps(t *testing.T) {
	const day = 24 * time.Hour
	for s := range stages {
		for _, deleted := range []bool{false, true} {
			h := open(t)
			h.options.RemindAfter, h.options.Timeout = 2*time.Minute, time.Minute
			item := h.item(s, 0)
			h.must(h.change(item.ID, mayfly.Change{Hold: mayfly.SetHold}))
			if deleted {
				h.must(h.delete(item.ID))
			}
			notes := noting{h.real.Writer, map[remind.Step]mayfly.Instant{}}
			h.set.Writer = notes
			h.must(h.support().Release(context.Background(), item.ID, "ben", "closed", h.now))
			soon := h.now.Add(5 * time.Minute)
			want := map[remind.Step]mayfly.Instant{remind.Expire: soon}
			switch {
			case deleted:
				want[remind.Erase], want[remind.Tidy] = soon, h.now.Add(31*day)
			case s != cold && s != pending:
				want[remind.Archive] = max(soon, item.End().Add(window))
			}
			if !deleted {
				want[remind.Retire] = item.End().Add(3 * 365 * day)
			}
			if !maps.Equal(notes.noted, want) {
				t.Errorf("%s, deleted %t: %v, want %v", s, deleted, notes.noted, want)
			}
		}
	}
}

// A release with an unknown result lands after the item was held again: the hold
// stays, also if the author has deleted the item (L16, I21).
func TestAReleaseThatLandsLateDoesNotEndAHoldThatWasAcknowledgedSince(t *testing.T) {
	r := seeded(t)
	landed := 0
	for s := expired; s < stages; s++ {
		for _, deleted := range []bool{false, true} {
			h := open(t)
			item := h.item(s, 1)
			h.must(h.support().Hold(context.Background(), item.ID, "ben", "case 11", h.now))
			if deleted {
				h.must(h.delete(item.ID))
			}
			set, late := storetest.Prefix(h.real, func(c storetest.Call) storetest.Fault {
				return storetest.Fault{Fails: c.Op == storetest.Transition}
			})
			h.set = set
			if err := h.support().Release(context.Background(), item.ID, "ben", "over", h.now); !errors.Is(err, mayfly.Unknown) {
				t.Fatalf("%s: %v", s, err)
			}
			h.set = h.real
			h.must(h.support().Hold(context.Background(), item.ID, "ben", "case 12", h.now))
			if len(late.Pending()) == 0 {
				t.Fatalf("%s: no pending writes", s)
			}
			n, err := late.LandAll(context.Background(), r)
			h.must(err)
			landed += n
			if row := h.get(item.ID); !row.Held || (row.State == mayfly.Deleted) != deleted {
				t.Errorf("%s, deleted %v: %+v", s, deleted, row)
			}
		}
	}
	t.Logf("%d releases landed late", landed)
}
