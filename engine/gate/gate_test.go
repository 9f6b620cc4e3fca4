package gate_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/gate"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/fixture"
)

// twin is a user who is not owner and has the same trace.
func twin(owner mayfly.UserID) mayfly.UserID {
	for i := 0; ; i++ {
		if u := mayfly.UserOf("test", fmt.Sprint("twin", i)); u.Trace() == owner.Trace() && u != owner {
			return u
		}
	}
}

func TestAStoryIsServedUpToItsDeadlineAndNotOneMillisecondLater(t *testing.T) {
	h := open(t, gate.Options{})
	item := story(t)
	h.put(item, mayfly.Body{Text: "sea"})
	opened, err := h.gate.Open(t.Context(), item.ID, mayfly.ViewerOf(ben), deadline-1)
	if err != nil || opened.Verdict != gate.Serve || opened.Item != item || opened.Body.Text != "sea" {
		t.Errorf("%+v, %v", opened, err)
	}
	h.want(item.ID, mayfly.ViewerOf(ben), deadline, gate.Gone)
	h.want(item.ID, mayfly.ViewerOf(ana), deadline, gate.Archived)
	h.want(item.ID, mayfly.ModeratorOf(ben), deadline, gate.Archived)
	h.want(item.ID, mayfly.ViewerOf(ana), deadline-1, gate.Serve)
	h.want(item.ID, mayfly.ModeratorOf(mayfly.UserID{}), deadline-1, gate.Serve)
}

// L2: the id alone says that it is gone, whether it ever existed or not.
func TestAnExpiredIDIsGoneWithoutALookup(t *testing.T) {
	h := open(t, gate.Options{})
	item := story(t)
	h.put(item, mayfly.Body{})
	if ben.Trace() == ana.Trace() {
		t.Fatal("choose other names")
	}
	h.want(item.ID, mayfly.Viewer{}, deadline, gate.Gone) // loads the restored set
	if n := h.lookups(); n != 1 {
		t.Fatalf("%d lookups, want one for the days of the restored set", n)
	}
	for _, id := range []mayfly.ID{item.ID, newID(t, ana, 77)} {
		for _, viewer := range []mayfly.Viewer{{}, mayfly.ViewerOf(ben), mayfly.ViewerOf(mayfly.UserID{})} {
			for _, now := range []mayfly.Instant{deadline, deadline + 1, deadline + 1e12} {
				h.want(id, viewer, now, gate.Gone)
			}
		}
	}
	if n := h.lookups(); n != 0 {
		t.Errorf("%d lookups", n)
	}
	h.want(item.ID, mayfly.ModeratorOf(ben), deadline, gate.Archived)
	if h.lookups() == 0 {
		t.Error("a moderator was answered without a lookup")
	}
}

func TestAVerdictOnAnExpiredIDAllocatesNothing(t *testing.T) {
	h := open(t, gate.Options{})
	id, viewer, ctx := newID(t, ana, 3), mayfly.ViewerOf(ben), t.Context()
	if n := testing.AllocsPerRun(1000, func() {
		if _, err := h.gate.Open(ctx, id, viewer, deadline); err != mayfly.Gone {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A trace is ten bits: who shares it with the author is looked up, and then
// judged by the owner.
func TestAViewerWithTheAuthorsTraceIsLookedUpAndRefused(t *testing.T) {
	h := open(t, gate.Options{})
	item := story(t)
	h.put(item, mayfly.Body{})
	h.want(item.ID, mayfly.Viewer{}, deadline, gate.Gone)
	h.lookups()
	h.want(item.ID, mayfly.ViewerOf(twin(ana)), deadline, gate.Gone)
	if h.lookups() == 0 {
		t.Error("not looked up")
	}
	h.want(newID(t, ana, 99), mayfly.ViewerOf(twin(ana)), deadline, gate.Gone) // never was
	h.want(newID(t, ana, 99), mayfly.ViewerOf(twin(ana)), deadline-1, gate.Hidden)
}

func TestNoViewerIsTheAuthorOfAnAnonymousItem(t *testing.T) {
	h := open(t, gate.Options{})
	item := story(t)
	item.Owner, item.ID = mayfly.UserID{}, newID(t, mayfly.UserID{}, 4) // with the trace of the zero user
	h.put(item, mayfly.Body{})
	for _, viewer := range []mayfly.Viewer{{}, mayfly.ViewerOf(mayfly.UserID{}), mayfly.ViewerOf(twin(mayfly.UserID{}))} {
		h.want(item.ID, viewer, deadline-1, gate.Serve)
		h.want(item.ID, viewer, deadline, gate.Gone)
	}
}

// A refused viewer gets the same bytes for every reason (ST2).
func TestRefusalsAreAlikeWhateverTheReason(t *testing.T) {
	h := open(t, gate.Options{Relations: fixture.OneByOne(func(_ context.Context, _, viewer mayfly.UserID) (mayfly.Relation, error) {
		return blocked, nil
	})})
	items := map[string]mayfly.Item{}
	for i, reason := range []string{"hidden", "deleted", "held", "blocked"} {
		item := story(t)
		item.ID = newID(t, ana, uint64(100+i))
		if reason == "hidden" {
			item.Audience = mayfly.CloseFriends
		}
		h.put(item, mayfly.Body{Text: reason})
		items[reason] = item
	}
	h.move(items["deleted"].ID, mayfly.Deleted)
	h.move(items["held"].ID, mayfly.Active, hold)
	items["never was"] = mayfly.Item{ID: newID(t, ana, 999)}
	for _, now := range []mayfly.Instant{deadline - 1, deadline} {
		texts := map[string]bool{}
		for reason, item := range items {
			opened, err := h.gate.Open(t.Context(), item.ID, mayfly.ViewerOf(ben), now)
			if err == nil || opened.Body.Text != "" || opened.Item != (mayfly.Item{}) {
				t.Errorf("%s at %s: %+v", reason, now, opened)
				continue
			}
			if _, bare := err.(mayfly.Kind); !bare {
				t.Errorf("%s: %#v is not a bare kind", reason, err)
			}
			texts[err.Error()] = true
		}
		if len(texts) != 1 {
			t.Errorf("at %s: %v", now, texts)
		}
	}
}

func TestADeletedRowIsGoneForEveryoneAndNeedsNoBody(t *testing.T) {
	h := open(t, gate.Options{})
	item := story(t)
	h.put(item, mayfly.Body{})
	h.move(item.ID, mayfly.Deleted)
	for range 2 { // from the store and from the cache
		for _, viewer := range []mayfly.Viewer{{}, mayfly.ViewerOf(ana), mayfly.ModeratorOf(ben)} {
			h.want(item.ID, viewer, deadline-1, gate.Hidden)
			h.want(item.ID, viewer, deadline, gate.Gone)
		}
	}
	if h.calls("body") > 0 {
		t.Error("the body of a tombstone was read")
	}
}

func TestARowWithoutItsBodyIsCorrupt(t *testing.T) {
	h := open(t, gate.Options{})
	item := story(t)
	h.put(item, mayfly.Body{})
	h.Hooks.Body = noBody
	if _, err := h.open(item.ID, mayfly.Viewer{}, birth); !errors.Is(err, mayfly.Corrupt) {
		t.Error(err)
	}
	h.Hooks.Body = nil
	h.want(item.ID, mayfly.Viewer{}, birth, gate.Serve) // was not cached
}

func TestAStoreThatIsAwayIsAnErrorAndNotAnAbsence(t *testing.T) {
	h := open(t, gate.Options{})
	away := mayfly.Errorf(mayfly.Unavailable, "away")
	h.afterGet(func() error { return away })
	if _, err := h.open(story(t).ID, mayfly.Viewer{}, birth); !errors.Is(err, mayfly.Unavailable) {
		t.Error(err)
	}
	h.onRows(func(context.Context) error { return away })
	for _, cut := range []bool{false, true} { // the set is loaded, or looked up
		h.wire.SetCut(cut)
		if _, err := h.open(story(t).ID, mayfly.Viewer{}, deadline); !errors.Is(err, mayfly.Unavailable) {
			t.Errorf("restored set, cut %t: %v", cut, err)
		}
	}
}

func TestRelationsAreAskedOfUsersOnlyAndOfEveryRefusedUser(t *testing.T) {
	asked, answer := 0, error(nil)
	h := open(t, gate.Options{CacheRows: -1, Relations: fixture.OneByOne(func(_ context.Context, owner, viewer mayfly.UserID) (mayfly.Relation, error) {
		asked++
		if owner != ana || viewer != ben {
			t.Errorf("asked how %s stands to %s", owner, viewer)
		}
		return friend, answer
	})})
	item := story(t)
	item.Audience = mayfly.CloseFriends
	h.put(item, mayfly.Body{})
	held := story(t)
	held.ID = newID(t, ana, 2)
	h.put(held, mayfly.Body{})
	h.move(held.ID, mayfly.Active, hold)

	h.want(item.ID, mayfly.ViewerOf(ben), birth, gate.Serve)
	if asked != 1 {
		t.Fatalf("asked %d times", asked)
	}
	answer = mayfly.Errorf(mayfly.Unavailable, "away")
	h.want(item.ID, mayfly.Viewer{}, birth, gate.Hidden)
	h.want(item.ID, mayfly.ViewerOf(ana), birth, gate.Serve)
	h.want(item.ID, mayfly.ModeratorOf(ben), birth, gate.Serve)
	if asked != 1 {
		t.Errorf("asked %d times where it decides nothing", asked-1)
	}
	answer = nil
	h.want(held.ID, mayfly.ViewerOf(ben), birth, gate.Hidden)
	if asked != 2 { // or a held item could be distinguished from a hidden one
		t.Errorf("asked %d times about a held item", asked-1)
	}
	answer = mayfly.Errorf(mayfly.Unavailable, "away")
	if _, err := h.open(item.ID, mayfly.ViewerOf(ben), birth); !errors.Is(err, mayfly.Unavailable) {
		t.Errorf("relations away: %v", err)
	}
}

func TestWithoutRelationsOnlyEveryoneIsServed(t *testing.T) {
	h := open(t, gate.Options{})
	item := story(t)
	item.Audience = mayfly.Followers
	h.put(item, mayfly.Body{})
	h.want(item.ID, mayfly.ViewerOf(ben), birth, gate.Hidden)
}

func TestAGateNeedsItsSignals(t *testing.T) {
	w := &fixture.Signals{Refuses: mayfly.Errorf(mayfly.Unavailable, "away")}
	if _, err := gate.New(t.Context(), store.Set{Signals: w}, gate.Options{}); !errors.Is(err, mayfly.Unavailable) {
		t.Error(err)
	}
	h := open(t, gate.Options{})
	if err := h.gate.Close(); err != nil || h.wire.Closed() != 1 {
		t.Errorf("%v, closed %d times", err, h.wire.Closed())
	}
}

// A delete changes the row, publishes the signal and then answers: a viewer who
// asks after that is refused, also if the row was being read and cached (I7).
func TestNoViewerIsServedAfterADeleteWasSignalled(t *testing.T) {
	h := open(t, gate.Options{})
	for round := range 50 {
		item := story(t)
		item.ID = newID(t, ana, uint64(1000+round))
		h.put(item, mayfly.Body{})
		var signalled atomic.Bool
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 200 {
					after := signalled.Load()
					if _, err := h.open(item.ID, mayfly.ViewerOf(ben), birth); err == nil && after {
						t.Error("served after the delete was signalled")
						return
					}
				}
			})
		}
		h.move(item.ID, mayfly.Deleted)
		h.signal(store.RowChanged, item.ID)
		signalled.Store(true)
		wg.Wait()
	}
}

func TestWaitingForTheRestoredSetEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, gate.Options{})
		h.onRows(func(ctx context.Context) error { // the store hangs
			<-ctx.Done()
			return mayfly.Wrap(mayfly.Unavailable, ctx.Err(), "")
		})
		id := story(t).ID
		ask := func(patience time.Duration) time.Duration {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			began := time.Now()
			if _, err := h.gate.Open(ctx, id, mayfly.Viewer{}, deadline); !errors.Is(err, mayfly.Unavailable) {
				t.Errorf("%v", err)
			}
			return time.Since(began)
		}
		go ask(time.Hour)
		synctest.Wait()
		if took := ask(time.Second); took != time.Second {
			t.Errorf("waited %s for the load of another caller", took)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
	})
}

func TestARefusalSaysNothingOfTheID(t *testing.T) {
	h := open(t, gate.Options{})
	id := newID(t, ana, 5)
	for _, now := range []mayfly.Instant{birth, deadline} {
		if _, err := h.open(id, mayfly.Viewer{}, now); strings.Contains(err.Error(), id.String()) {
			t.Error(err)
		}
	}
}
