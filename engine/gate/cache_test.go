package gate_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	rowtables "github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/gate"
	"github.com/mayflyhq/mayfly/store"
)

// live returns a gate and a live story that ben has opened once.
func live(t *testing.T, o gate.Options) (*engine, mayfly.Item) {
	t.Helper()
	h := open(t, o)
	item := story(t)
	h.put(item, mayfly.Body{Text: "sea"})
	h.want(item.ID, mayfly.ViewerOf(ben), birth, gate.Serve)
	h.lookups()
	return h, item
}

func TestALiveRowIsReadOnceUnderALease(t *testing.T) {
	h, item := live(t, gate.Options{})
	for range 10 {
		h.want(item.ID, mayfly.ViewerOf(ben), deadline-1, gate.Serve)
	}
	if n := h.lookups(); n != 0 {
		t.Errorf("%d lookups", n)
	}
	h.want(item.ID, mayfly.ViewerOf(ben), deadline, gate.Gone) // what is cached is judged by now
	h.want(item.ID, mayfly.ViewerOf(ana), deadline, gate.Archived)
}

// The walks change the row of an ended item without a signal, and its author is
// shown state and tier (ST6).
func TestAnAuthorIsShownWhereAnEndedStoryIsNow(t *testing.T) {
	h, item := live(t, gate.Options{})
	state := func() mayfly.State {
		opened, err := h.gate.Open(t.Context(), item.ID, mayfly.ViewerOf(ana), deadline)
		if err != nil {
			t.Fatal(err)
		}
		all, err := h.gate.OpenAll(t.Context(), []mayfly.ID{item.ID}, mayfly.ViewerOf(ana), deadline)
		if err != nil || len(all) != 1 || all[0].Item.State != opened.Item.State {
			t.Fatalf("OpenAll says %v, %v", all, err)
		}
		return opened.Item.State
	}
	for _, next := range []mayfly.State{mayfly.ExpiredHot, mayfly.Archiving, mayfly.Cold} {
		h.move(item.ID, next)
		if s := state(); s != next {
			t.Errorf("shown %s, and it is %s", s, next)
		}
	}
	h.lookups()
	if state(); h.lookups() != 0 {
		t.Error("what is cold has come to rest, and is looked up")
	}
}

func TestAnInvalidationIsSeenAtOnce(t *testing.T) {
	h, item := live(t, gate.Options{})
	h.move(item.ID, mayfly.Active, hold)
	h.signal(store.RowChanged, item.ID)
	h.want(item.ID, mayfly.ViewerOf(ben), birth, gate.Hidden)
}

func TestAnInvalidationOfAnotherItemLeavesTheRowCached(t *testing.T) {
	h, item := live(t, gate.Options{})
	h.signal(store.RowChanged, newID(t, ana, 2))
	h.want(item.ID, mayfly.ViewerOf(ben), birth, gate.Serve)
	if n := h.lookups(); n != 0 {
		t.Errorf("%d lookups", n)
	}
}

// trap 18: a signal that was lost with the lease costs a lookup and no answer.
func TestALostLeaseIsLookedUp(t *testing.T) {
	h, item := live(t, gate.Options{})
	h.wire.SetCut(true)
	h.move(item.ID, mayfly.Deleted)
	h.signal(store.RowChanged, item.ID) // not delivered
	for range 2 {
		h.want(item.ID, mayfly.ViewerOf(ben), birth, gate.Hidden)
	}
	if h.calls("ledger get") != 2 {
		t.Errorf("%d lookups in two reads without a lease", h.calls("ledger get"))
	}
	h.wire.SetCut(false) // another epoch: what was cached in the old one is not looked at
	h.want(item.ID, mayfly.ViewerOf(ben), birth, gate.Hidden)
}

func TestARowReadWithoutALeaseIsNotCached(t *testing.T) {
	h := open(t, gate.Options{})
	item := story(t)
	h.put(item, mayfly.Body{})
	h.wire.SetCut(true)
	h.want(item.ID, mayfly.ViewerOf(ben), birth, gate.Serve)
	h.wire.SetCut(false)
	h.lookups()
	h.want(item.ID, mayfly.ViewerOf(ben), birth, gate.Serve)
	if h.lookups() == 0 {
		t.Error("answered from what was read without a lease")
	}
}

// A slow read must not put back what a delete has just taken out.
func TestAFillThatAnInvalidationOvertookIsDropped(t *testing.T) {
	h := open(t, gate.Options{})
	item := story(t)
	h.put(item, mayfly.Body{})
	h.afterGet(func() error { // between the read and the fill
		h.Hooks.LedgerGet = nil
		h.move(item.ID, mayfly.Deleted)
		h.signal(store.RowChanged, item.ID)
		return nil
	})
	h.want(item.ID, mayfly.ViewerOf(ben), birth, gate.Serve) // began before the delete was answered
	h.want(item.ID, mayfly.ViewerOf(ben), birth, gate.Hidden)
}

// A lease that was lost and came back during a read is another epoch: signals
// of the time between are not known.
func TestAFillOverALostLeaseIsNotUsed(t *testing.T) {
	h := open(t, gate.Options{})
	item := story(t)
	h.put(item, mayfly.Body{})
	h.afterGet(func() error {
		h.Hooks.LedgerGet = nil
		h.wire.SetCut(true)
		h.move(item.ID, mayfly.Deleted)
		h.signal(store.RowChanged, item.ID)
		h.wire.SetCut(false)
		return nil
	})
	h.want(item.ID, mayfly.ViewerOf(ben), birth, gate.Serve)
	h.want(item.ID, mayfly.ViewerOf(ben), birth, gate.Hidden)
}

func TestWithoutACacheTheAnswersAreTheSame(t *testing.T) {
	h, item := live(t, gate.Options{CacheRows: -1})
	h.want(item.ID, mayfly.ViewerOf(ben), birth, gate.Serve)
	if h.lookups() == 0 {
		t.Error("cached, though nothing is to be")
	}
	h.move(item.ID, mayfly.Deleted)
	h.want(item.ID, mayfly.ViewerOf(ben), birth, gate.Hidden) // no signal was needed
	h.signal(store.RowChanged, item.ID)
}

// I17: 100 rows of the cache are 100 KiB, not 100 × whatever a body has.
func TestBigBodiesDoNotMakeABigCache(t *testing.T) {
	h := open(t, gate.Options{CacheRows: 100})
	big := mayfly.Body{Text: strings.Repeat("x", 50<<10)}
	for i := range uint64(30) {
		item := story(t)
		item.ID = newID(t, ana, 1000+i)
		h.put(item, big)
		h.want(item.ID, mayfly.Viewer{}, birth, gate.Serve)
	}
	h.gate.Evict()
	h.lookups()
	cached := 0
	for i := range uint64(30) {
		before := h.calls("ledger get")
		h.want(newID(t, ana, 1000+i), mayfly.Viewer{}, birth, gate.Serve)
		if h.calls("ledger get") == before {
			cached++
		}
		h.gate.Evict()
	}
	if cached > 4 {
		t.Errorf("%d bodies of 50 KiB are cached", cached)
	}
}

// restoredStory is a story of ana's that support has put back for a second.
func restoredStory(h *engine) mayfly.Item {
	h.Helper()
	item := story(h)
	h.put(item, mayfly.Body{})
	h.move(item.ID, mayfly.ExpiredHot)
	h.move(item.ID, mayfly.Active, func(c *mayfly.Change) { c.Cause, c.ServesUntil = mayfly.BySupport, deadline+1000 })
	return item
}

func TestARestoredStoryIsServedUntilServesUntil(t *testing.T) {
	for name, cut := range map[string]bool{"under a lease": false, "without a lease": true} {
		t.Run(name, func(t *testing.T) {
			h := open(t, gate.Options{})
			h.wire.SetCut(cut)
			item := restoredStory(h)
			h.want(item.ID, mayfly.ViewerOf(ben), deadline, gate.Gone) // not in the set yet
			h.restore(item.ID)
			h.signal(store.RestoredSet, item.ID)
			h.want(item.ID, mayfly.ViewerOf(ben), deadline, gate.Serve)
			h.want(item.ID, mayfly.ViewerOf(ben), deadline+999, gate.Serve)
			h.want(item.ID, mayfly.ViewerOf(ben), deadline+1000, gate.Gone)
			h.want(item.ID, mayfly.ViewerOf(ana), deadline+1000, gate.Archived)
		})
	}
}

func TestTheRestoredSetIsLoadedOnceInAnEpoch(t *testing.T) {
	h := open(t, gate.Options{})
	for range 10 {
		h.want(newID(t, ana, 7), mayfly.Viewer{}, deadline, gate.Gone)
	}
	if n := h.lookups(); n != 1 {
		t.Errorf("%d lookups, want 1", n)
	}
	h.wire.SetCut(true)
	h.wire.SetCut(false)
	h.want(newID(t, ana, 7), mayfly.Viewer{}, deadline, gate.Gone)
	if n := h.lookups(); n != 1 {
		t.Errorf("in another epoch: %d lookups", n)
	}
}

func TestARestoreDuringALoadOfTheSetIsServed(t *testing.T) {
	h := open(t, gate.Options{})
	item := restoredStory(h)
	h.restore(newID(t, ben, 1))
	reads := 0
	h.onRows(func(context.Context) error {
		if reads++; reads == 2 { // the days and their ids were read before it was restored
			h.Hooks.RowsGet, h.Hooks.Range = nil, nil
			h.restore(item.ID)
			h.signal(store.RestoredSet, item.ID)
		}
		return nil
	})
	_, _ = h.open(item.ID, mayfly.ViewerOf(ben), deadline) // began before the restore: either answer is right
	h.want(item.ID, mayfly.ViewerOf(ben), deadline, gate.Serve)
}

func TestALargeRestoredSetIsReadInPages(t *testing.T) {
	h := open(t, gate.Options{})
	item := restoredStory(h)
	ids := []mayfly.ID{item.ID}
	for i := range uint64(2500) { // others, in its shard
		ids = append(ids, newID(t, ben, i<<4|uint64(item.ID.Shard())))
	}
	h.restore(ids...)
	h.want(item.ID, mayfly.ViewerOf(ben), deadline, gate.Serve)
	h.want(newID(t, ana, 0xfff1), mayfly.Viewer{}, deadline, gate.Gone)
}

func TestARestoredSetThatCannotBeReadIsCorrupt(t *testing.T) {
	h := open(t, gate.Options{})
	var b store.Batch
	rowtables.ListRestored(&b, newID(t, ana, 7), deadline+1)
	put := b.Stages()[0].Puts[1]
	b.Put(rowtables.RestoredDays, store.Key{Partition: put.Key.Partition, Clustering: put.Key.Clustering + "?"}, []byte{1}, 0)
	h.Must(h.Real.Writer.Commit(t.Context(), &b))
	if _, err := h.open(story(t).ID, mayfly.Viewer{}, deadline); !errors.Is(err, mayfly.Corrupt) {
		t.Error(err)
	}
}

// aging returns a gate whose elapsed time is set by the test, and a live story.
func aging(t *testing.T) (h *engine, item mayfly.Item, elapsed *time.Duration) {
	t.Helper()
	elapsed = new(time.Duration)
	h, item = live(t, gate.Options{Elapsed: func() time.Duration { return *elapsed }})
	return h, item, elapsed
}

// The node that deleted the row was cut off: no signal came, and leases are held.
func TestARowChangedWithoutASignalIsNotServedPastTheCacheAge(t *testing.T) {
	h, item, elapsed := aging(t)
	h.move(item.ID, mayfly.Deleted)
	*elapsed = store.CacheAge - 1
	h.want(item.ID, mayfly.ViewerOf(ben), birth, gate.Serve) // the delete is not acknowledged yet
	*elapsed = store.CacheAge
	all, err := h.gate.OpenAll(t.Context(), []mayfly.ID{item.ID}, mayfly.ViewerOf(ben), birth)
	if err != nil || len(all) != 0 {
		t.Errorf("OpenAll serves %v, %v", all, err)
	}
	h.want(item.ID, mayfly.ViewerOf(ben), birth, gate.Hidden)
}

// A row is as old as the beginning of its read.
func TestTheAgeOfARowCountsFromBeforeItWasRead(t *testing.T) {
	h, item, elapsed := aging(t)
	h.signal(store.RowChanged, item.ID)
	h.afterGet(func() error { // after the row was read
		h.Hooks.LedgerGet = nil
		h.move(item.ID, mayfly.Deleted)
		*elapsed += store.CacheAge
		return nil
	})
	h.want(item.ID, mayfly.ViewerOf(ben), birth, gate.Serve) // it began before the delete
	h.want(item.ID, mayfly.ViewerOf(ben), birth, gate.Hidden)
}

func TestOfAnAgedRowOnlyTheRowIsReadAgain(t *testing.T) {
	h, item, elapsed := aging(t)
	for _, read := range []func(){
		func() { h.want(item.ID, mayfly.ViewerOf(ben), birth, gate.Serve) },
		func() {
			all, err := h.gate.OpenAll(t.Context(), []mayfly.ID{item.ID}, mayfly.ViewerOf(ben), birth)
			if err != nil || len(all) != 1 || all[0].Body.Text != "sea" {
				t.Errorf("%v, %v", all, err)
			}
		},
	} {
		*elapsed += store.CacheAge
		for range 3 {
			read()
		}
		if gets, bodies := h.look("ledger get"), h.look("body"); gets != 1 || bodies != 0 {
			t.Errorf("%d rows and %d bodies were read", gets, bodies)
		}
	}
}

func TestARestoreWithoutASignalIsServedAfterTheAgeOfTheSet(t *testing.T) {
	elapsed := time.Duration(0)
	h := open(t, gate.Options{Elapsed: func() time.Duration { return elapsed }})
	item := restoredStory(h)
	h.want(item.ID, mayfly.ViewerOf(ben), deadline, gate.Gone)
	h.restore(item.ID)
	elapsed = 10 * store.CacheAge
	h.want(item.ID, mayfly.ViewerOf(ben), deadline, gate.Serve)
}

// erasedBehind erases an item right after its row was read, so that the body, and
// the row too if removed is set, are gone when the gate reads on.
func (h *engine) erasedBehind(id mayfly.ID, removed bool) {
	h.afterGet(func() error {
		h.Hooks.LedgerGet = nil
		h.move(id, mayfly.Deleted)
		err := h.Real.Ledger.EraseBody(context.Background(), id)
		if removed {
			err = errors.Join(err, h.Real.Ledger.Remove(context.Background(), id))
		}
		return err
	})
}

func TestAReadThatMeetsAnErasureIsARefusal(t *testing.T) {
	for _, removed := range []bool{false, true} {
		h := open(t, gate.Options{})
		item := story(t)
		h.put(item, mayfly.Body{Text: "sea"})
		h.erasedBehind(item.ID, removed)
		for range 2 {
			h.want(item.ID, mayfly.Viewer{}, birth, gate.Hidden)
		}
	}
}

func TestARingThatMeetsAnErasureHasTheOthers(t *testing.T) {
	for _, removed := range []bool{false, true} {
		h := open(t, gate.Options{})
		ids := h.many(3)
		h.erasedBehind(ids[1], removed)
		for range 2 {
			all, err := h.gate.OpenAll(t.Context(), ids, mayfly.ViewerOf(ana), birth)
			if err != nil || len(all) != 2 || all[0].Item.ID != ids[0] || all[1].Item.ID != ids[2] || all[1].Body.Text == "" {
				t.Fatalf("%+v, %v", all, err)
			}
		}
	}
}
