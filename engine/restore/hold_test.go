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
	"github.com/mayflyhq/mayfly/test/fixture"
)

func TestAHeldItemIsHiddenAndKeptUntilReleased(t *testing.T) {
	eachStage(t, func(h *env, item mayfly.Item) {
		g, author, moderator := h.gate(), mayfly.ViewerOf(fixture.Ana()), mayfly.ModeratorOf(mayfly.UserOf("test", "ben"))
		opens := func(v mayfly.Viewer) bool {
			_, err := g.Open(context.Background(), item.ID, v, h.Now)
			return err == nil
		}
		if !opens(author) || !opens(moderator) { // this also fills the cache
			h.Fatal("it is not readable before")
		}
		support := h.support()
		for range 2 { // the second hold changes only the generation
			h.Must(support.Hold(context.Background(), item.ID, audit.Actor{Subject: "ben"}, "case 9", h.Now))
		}
		held := h.Row(item.ID)
		if !held.Held || held.Generation != item.Generation+2 || held.State != item.State || opens(author) || !opens(moderator) {
			h.Fatalf("%+v, author %t, moderator %t", held, opens(author), opens(moderator))
		}
		h.wantEvent(item.ID, held.Generation, mayfly.WasHeld)
		h.live(item.ID, 3*time.Hour, time.Minute) // whatever the reminders do
		if h.Row(item.ID).State > max(item.State, mayfly.ExpiredHot) {
			h.Fatalf("held, but changed: %+v", h.Row(item.ID))
		}
		h.Readable(h.Row(item.ID))
		for range 2 {
			h.Must(support.Release(context.Background(), item.ID, audit.Actor{Subject: "ben"}, "case 9 is closed", h.Now))
		}
		if row := h.Row(item.ID); row.Held || !opens(author) {
			h.Fatalf("released: %+v", row)
		}
		h.live(item.ID, 2*time.Hour, time.Minute)
		h.wantArchived(item.ID)
	})
}

func TestAHeldItemThatItsAuthorDeletesKeepsItsBytesUntilReleased(t *testing.T) {
	eachStage(t, func(h *env, item mayfly.Item) {
		support := h.support()
		h.Must(support.Hold(context.Background(), item.ID, audit.Actor{Subject: "ben"}, "case 9", h.Now))
		h.delete(item.ID)
		h.live(item.ID, 3*time.Hour, time.Minute)
		row := h.Row(item.ID)
		if row.State != mayfly.Deleted || !row.Held {
			h.Fatalf("%+v", row)
		}
		alive := row
		alive.State = mayfly.ExpiredHot // hydrate does not open deleted items; this checks the bytes
		h.Readable(alive)
		h.Must(support.Release(context.Background(), item.ID, audit.Actor{Subject: "ben"}, "case 9 is closed", h.Now))
		h.live(item.ID, time.Hour, time.Minute)
		left := h.unnamed(h.Row(item.ID))
		if row := h.Row(item.ID); row.State != mayfly.Deleted || len(left) > 0 {
			h.Fatalf("%+v, left %v", row, left)
		}
		if err := support.Hold(context.Background(), item.ID, audit.Actor{Subject: "ben"}, "case 10", h.Now); !errors.Is(err, mayfly.Gone) {
			h.Fatalf("a deleted item was held: %v", err)
		}
	})
}

func TestAHoldSucceedsWhenTheRowChangesMeanwhile(t *testing.T) {
	h := open(t)
	item := h.at(expired, 1)
	h.beforeFirst(func() {
		h.archive(item.ID)
	})
	h.Must(h.support().Hold(context.Background(), item.ID, audit.Actor{Subject: "ben"}, "case 9", h.Now))
	if row := h.Row(item.ID); !row.Held || row.State != mayfly.Cold {
		t.Fatalf("%+v", row)
	}
}

func TestARestoreThatRacesAHoldIsRefused(t *testing.T) {
	for s := range stages {
		h := open(t)
		item := h.at(s, 1)
		other := h.support()
		h.beforeFirst(func() {
			h.Must(other.Hold(context.Background(), item.ID, audit.Actor{Subject: "ben"}, "case 9", h.Now))
		})
		if _, err := h.support().Item(context.Background(), h.request(item.ID), h.Now); !errors.Is(err, mayfly.Conflict) {
			t.Fatalf("%s: %v", s, err)
		}
		h.live(item.ID, 2*time.Hour, time.Minute)
		if row := h.Row(item.ID); !row.Held || row.ServesUntil != 0 {
			t.Fatalf("%s: %+v", s, row)
		}
		h.Must(other.Release(context.Background(), item.ID, audit.Actor{Subject: "ben"}, "closed", h.Now))
		h.live(item.ID, 2*time.Hour, time.Minute)
		h.wantArchived(item.ID)
	}
}

func TestARestoredItemThatIsHeldStillExpires(t *testing.T) {
	h := open(t)
	item := h.at(cold, 1)
	support, req := h.support(), h.request(item.ID)
	_, err := support.Item(context.Background(), req, h.Now)
	h.Must(err)
	h.Must(support.Hold(context.Background(), item.ID, audit.Actor{Subject: "ben"}, "case 9", h.Now))
	h.live(item.ID, 2*time.Hour, time.Minute)
	if row := h.Row(item.ID); row.State != mayfly.ExpiredHot || !row.Held {
		t.Fatalf("%+v", row)
	}
	h.wantRead(h.Row(item.ID), hydrate.Hot)
	h.Must(support.Release(context.Background(), item.ID, audit.Actor{Subject: "ben"}, "closed", h.Now))
	h.live(item.ID, 2*time.Hour, time.Minute)
	h.wantArchived(item.ID)
}

func TestHoldAndReleaseAreAuditedAndNeedAnActorAndAReason(t *testing.T) {
	h := open(t)
	item := h.at(expired, 0)
	support := h.support()
	for _, do := range []func(by, why string) error{
		func(by, why string) error {
			return support.Hold(context.Background(), item.ID, audit.Actor{Subject: by}, why, h.Now)
		},
		func(by, why string) error {
			return support.Release(context.Background(), item.ID, audit.Actor{Subject: by}, why, h.Now)
		},
	} {
		before := h.Row(item.ID)
		if err := do("", "why"); !errors.Is(err, mayfly.Invalid) {
			t.Errorf("without an actor: %v", err)
		}
		if err := do("ben", ""); !errors.Is(err, mayfly.Invalid) || h.Row(item.ID) != before {
			t.Errorf("without a reason: %v", err)
		}
		h.Must(do("ben", "why"))
	}
	var verbs []audit.Verb
	_, err := audit.Verify(context.Background(), h.Real.Rows, func(r audit.Record) error {
		if r.Entry.Outcome == audit.Done {
			verbs = append(verbs, r.Entry.Verb)
		}
		return nil
	})
	h.Must(err)
	if len(verbs) != 2 || verbs[0] != audit.Hold || verbs[1] != audit.Release {
		t.Errorf("%v", verbs)
	}
}

func TestAHoldThatCannotNotifyCachesWaitsUntilTheirEntriesExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t)
		item := h.at(expired, 0)
		h.Set.Signals = fixture.Deaf{Signals: h.Real.Signals}
		h.options.Timeout = 50 * time.Millisecond
		begun := time.Now()
		h.Must(h.support().Hold(context.Background(), item.ID, audit.Actor{Subject: "ben"}, "case 9", h.Now))
		if took := time.Since(begun); took < store.CacheWait {
			t.Errorf("returned after %s, while a cache may still show the item", took)
		}
		if !h.Row(item.ID).Held {
			t.Error("it is not held")
		}
	})
}

func TestAReleaseWritesRemindersForTheMissedSteps(t *testing.T) {
	const day = 24 * time.Hour
	for s := range stages {
		for _, deleted := range []bool{false, true} {
			h := open(t)
			h.options.RemindAfter, h.options.Timeout = 2*time.Minute, time.Minute
			item := h.at(s, 0)
			h.Hold(item.ID)
			if deleted {
				h.delete(item.ID)
			}
			noted := map[remind.Step]mayfly.Instant{} // the first due time of each step
			h.Hooks.OnReminder(func(r remind.Reminder) {
				if first, known := noted[r.Step]; !known || r.Due < first {
					noted[r.Step] = r.Due
				}
			})
			h.Must(h.support().Release(context.Background(), item.ID, audit.Actor{Subject: "ben"}, "closed", h.Now))
			soon := h.Now.Add(5 * time.Minute)
			want := map[remind.Step]mayfly.Instant{remind.Expire: soon}
			switch {
			case deleted:
				want[remind.Erase], want[remind.Tidy] = soon, h.Now.Add(31*day)
			case s != cold && s != pending:
				want[remind.Archive] = max(soon, item.End().Add(window))
			}
			if !deleted {
				want[remind.Retire] = item.End().Add(3 * 365 * day)
			}
			if !maps.Equal(noted, want) {
				t.Errorf("%s, deleted %t: %v, want %v", s, deleted, noted, want)
			}
		}
	}
}

// A release with an unknown result lands after the item was held again: the hold
// stays, also if the author has deleted the item (L16, I21).
func TestAReleaseThatLandsLateDoesNotEndAHoldThatWasAcknowledgedSince(t *testing.T) {
	r := fixture.Seeded(t)
	landed := 0
	for s := expired; s < stages; s++ {
		for _, deleted := range []bool{false, true} {
			h := open(t)
			item := h.at(s, 1)
			h.Must(h.support().Hold(context.Background(), item.ID, audit.Actor{Subject: "ben"}, "case 11", h.Now))
			if deleted {
				h.delete(item.ID)
			}
			set, late := storetest.Prefix(h.Real, func(c storetest.Call) storetest.Fault {
				return storetest.Fault{Fails: c.Op == storetest.Transition}
			})
			h.Set = set
			if err := h.support().Release(context.Background(), item.ID, audit.Actor{Subject: "ben"}, "over", h.Now); !errors.Is(err, mayfly.Unknown) {
				t.Fatalf("%s: %v", s, err)
			}
			h.Set = h.Real
			h.Must(h.support().Hold(context.Background(), item.ID, audit.Actor{Subject: "ben"}, "case 12", h.Now))
			if len(late.Pending()) == 0 {
				t.Fatalf("%s: no pending writes", s)
			}
			n, err := late.LandAll(context.Background(), r)
			h.Must(err)
			landed += n
			if row := h.Row(item.ID); !row.Held || (row.State == mayfly.Deleted) != deleted {
				t.Errorf("%s, deleted %v: %+v", s, deleted, row)
			}
		}
	}
	t.Logf("%d releases landed late", landed)
}
