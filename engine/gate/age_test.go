package gate_test

import (
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/gate"
	"github.com/mayflyhq/mayfly/store"
)

// aging is a live story in a house whose elapsed time is set by hand.
func aging(t *testing.T) (h *engine, item mayfly.Item, elapsed *time.Duration) {
	t.Helper()
	elapsed = new(time.Duration)
	h, item = live(t, gate.Options{Elapsed: func() time.Duration { return *elapsed }})
	return h, item, elapsed
}

// Its publisher was cut off, and nobody's lease tells of that.
func TestARowThatNobodyToldOfIsNotServedPastItsAge(t *testing.T) {
	h, item, elapsed := aging(t)
	h.move(item.ID, mayfly.Deleted)
	*elapsed = store.CacheAge - 1
	h.want(item.ID, mayfly.ViewerOf(ben), birth, gate.Serve) // nobody has been answered that it is deleted
	*elapsed = store.CacheAge
	all, err := h.gate.OpenAll(t.Context(), []mayfly.ID{item.ID}, mayfly.ViewerOf(ben), birth)
	if err != nil || len(all) != 0 {
		t.Errorf("OpenAll serves %v, %v", all, err)
	}
	h.want(item.ID, mayfly.ViewerOf(ben), birth, gate.Hidden)
}

// A read that took long is old when it lands.
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

func TestARestoreThatNobodyToldOfIsServedAfterAWhile(t *testing.T) {
	elapsed := time.Duration(0)
	h := open(t, gate.Options{Elapsed: func() time.Duration { return elapsed }})
	item := restoredStory(h)
	h.want(item.ID, mayfly.ViewerOf(ben), deadline, gate.Gone)
	h.restore(item.ID)
	elapsed = 10 * store.CacheAge
	h.want(item.ID, mayfly.ViewerOf(ben), deadline, gate.Serve)
}
