package archive_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/hydrate"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/fixture"
)

func TestAnExpiredStoryGoesToColdVerifiedAndHotIsErased(t *testing.T) {
	h := open(t)
	items := h.expire(h.Story(3), h.Story(0), h.Story(1))
	failures, err := h.archive(7, items...)
	if err != nil || len(failures) > 0 {
		t.Fatal(failures, err)
	}
	for _, item := range h.rows(items) {
		if item.State != mayfly.Cold || item.Run != 7 || item.Keys.Hot != 0 {
			t.Fatalf("%+v", item)
		}
		h.readable(hydrate.Cold, item)
	}
	if hot, cold := len(h.Objects(h.Real.Hot)), len(h.Objects(h.Real.Cold)); hot != 0 || cold != 4 {
		t.Fatalf("%d objects are hot and %d cold", hot, cold)
	}
}

func TestMediaAreReadableAtEveryMomentOfTheArchive(t *testing.T) {
	h := open(t)
	items := h.expire(h.Story(2))
	moments := 0
	look := func(int) { moments++; h.readable(0, items[0]) }
	h.onTransitions(nil, look)
	h.Hooks.Hot.Delete = func(_ context.Context, _ []mayfly.BlobKey, do func() error) error {
		err := do()
		look(0)
		return err
	}
	h.archived(7, items...)
	h.readable(hydrate.Cold, items[0])
	if moments < 4 {
		t.Fatalf("only %d moments were looked at", moments)
	}
}

func TestChangesByOthersMeanwhileAreKept(t *testing.T) {
	for call := 1; call <= 2; call++ { // after the claim, and after the cold keys are in the row
		h := open(t)
		deleted, held := h.Story(1), h.Story(1)
		items := h.expire(deleted, held)
		h.onTransitions(nil, func(n int) {
			if n == call {
				h.Change(deleted.ID, mayfly.Change{To: mayfly.Deleted, Cause: mayfly.ByUser})
				h.Hold(held.ID)
			}
		})
		if _, err := h.archive(7, items...); err != nil {
			t.Fatal(err)
		}
		if row := h.Row(deleted.ID); row.State != mayfly.Deleted {
			t.Fatalf("after call %d the deleted one is %s", call, row.State)
		}
		if row := h.Row(held.ID); row.State != mayfly.Archiving || !row.Held {
			t.Fatalf("after call %d the held one is %s", call, row.State)
		}
		h.readable(0, held)
	}
}

func TestAHeldItemIsLeftAlone(t *testing.T) {
	h := open(t)
	items := h.expire(h.Story(1))
	h.Hold(items[0].ID)
	before := h.Row(items[0].ID)
	h.archived(7, before)
	if h.Row(items[0].ID) != before {
		t.Fatal("the row was moved")
	}
	h.readable(hydrate.Hot, items[0])
}

func TestArchivingTwiceTellsTheLogAgainAndMovesNothing(t *testing.T) {
	h := open(t)
	items := h.expire(h.Story(1))
	for range 2 {
		h.archived(7, h.rows(items)...)
	}
	announced := h.CountEvents(mayfly.Ends, mayfly.WasArchived)
	if len(announced) != 1 {
		t.Fatalf("%v", announced)
	}
}

// What served once more has its safety window behind the second end, also where the
// walk is late and passes it then (L9).
func TestWhatServedOnceMoreIsNotArchivedBeforeItsWindowIsOver(t *testing.T) {
	h := open(t)
	item := h.expire(h.Story(1))[0]
	h.Change(item.ID, mayfly.Change{To: mayfly.Active, Cause: mayfly.BySupport, ServesUntil: h.Now.Add(time.Hour)})
	h.Now = h.Row(item.ID).ServesUntil
	h.WantActed(h.sweep().Act(t.Context(), h.batch(2, h.Row(item.ID))))
	item = h.Row(item.ID)
	for _, left := range []time.Duration{90 * time.Minute, time.Millisecond, 0} {
		h.Now = item.ServesUntil.Add(90*time.Minute - left)
		h.archived(7, h.Row(item.ID))
		if row := h.Row(item.ID); (row.State == mayfly.Cold) != (left == 0) {
			t.Errorf("%s before its window is over it is %s", left, row.State)
		}
	}
}

// A batch that failed is tried again from the rows as they were read: what the
// failed try has claimed or archived already is not forgotten.
func TestATryThatFailedIsMadeGoodFromTheRowsAsTheyWereRead(t *testing.T) {
	away := mayfly.Errorf(mayfly.Unavailable, "away")
	for name, broken := range map[string]func(h *env){
		"after the claim": func(h *env) {
			h.Set.Hot = storetest.FaultyBlobs(h.Real.Hot, func(storetest.BlobCall) storetest.BlobFault { return storetest.Before })
		},
		"before hot is erased": func(h *env) {
			h.Set.Hot = storetest.FaultyBlobs(h.Real.Hot, func(c storetest.BlobCall) storetest.BlobFault {
				return map[bool]storetest.BlobFault{true: storetest.Before}[c.Op == "delete"]
			})
		},
		"before the event": func(h *env) { h.Hooks.Append = fixture.FailAppend(away) },
	} {
		t.Run(name, func(t *testing.T) {
			h := open(t)
			items := h.expire(h.Story(1), h.Story(2))
			broken(h)
			if _, err := h.archive(7, items...); !errors.Is(err, mayfly.Unavailable) {
				t.Fatal(err)
			}
			h.Set, h.Hooks.Append = h.Real, nil
			h.archived(7, items...)
			h.readable(hydrate.Cold, items...)
			h.WantNamed(items...)
			if announced := h.CountEvents(mayfly.Ends, mayfly.WasArchived); len(announced) != 2 {
				t.Errorf("%v", announced)
			}
		})
	}
}

// Two workers that both believe to hold the shard archive every item once.
func TestWorkersThatRunAtTheSameTimeLoseNothing(t *testing.T) {
	h := open(t)
	var items []mayfly.Item
	for n := range 40 {
		items = append(items, h.Story(n%3))
	}
	items = h.expire(items...)
	a := h.newArchive()
	parked := make([][]walk.Failure, 4)
	var wg sync.WaitGroup
	for n := range parked {
		wg.Go(func() {
			var err error
			if parked[n], err = a.Act(t.Context(), h.batch(mayfly.Run(n+1), items...)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, failures := range parked { // what is parked comes back by its reminder
		for _, f := range failures {
			if more, err := h.archive(0, h.Row(f.Item.ID)); err != nil || len(more) > 0 {
				t.Fatal(more, err)
			}
		}
	}
	h.readable(hydrate.Cold, items...)
	if n := h.left(items); n > 0 {
		t.Errorf("%d items are neither archived nor parked", n)
	}
	h.WantNamed(items...)
}

// Claims and restores that crashed before their change have left objects under
// any generation that they could have had: they go with hot (L12).
func TestWhatCrashedClaimsAndRestoresLeftGoesWithHot(t *testing.T) {
	for takeovers := range 4 {
		h := open(t)
		items := h.expire(h.Story(2))
		leave := func() { // as a claim or a restore of the row as it is would write it
			row := h.Row(items[0].ID)
			for n := range int(row.Media) {
				for _, tier := range []store.Blobs{h.Real.Hot, h.Real.Cold} {
					_, err := tier.Put(t.Context(), row.MediaKey(row.Generation+1, n), strings.NewReader(fixture.Medium(n)))
					h.Must(err)
				}
			}
		}
		leave()
		for range takeovers {
			h.Change(items[0].ID, mayfly.Change{To: mayfly.Archiving, Cause: mayfly.ByArchive})
			leave()
		}
		h.archived(7, h.rows(items)...)
		h.readable(hydrate.Cold, items[0])
		h.WantNamed(items...)
	}
}
