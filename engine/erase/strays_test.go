package erase_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// halfBirths is a ledger that writes a body before its row, and has bodies whose
// rows never came (cassandrastore).
type halfBirths struct {
	store.Ledger
	bodies []mayfly.ID
	named  func(mayfly.ID) bool // whether what leads to a body is still there
	lost   bool                 // a body was left, or erased, behind what leads to it
}

func (l *halfBirths) EraseBody(ctx context.Context, ids ...mayfly.ID) error {
	for _, id := range ids {
		l.lost = l.lost || !l.named(id)
	}
	l.bodies = slices.DeleteFunc(l.bodies, func(id mayfly.ID) bool { return slices.Contains(ids, id) })
	return l.Ledger.EraseBody(ctx, ids...)
}

// halfBorn is a story with n media of which all but its row has come.
func (h *house) halfBorn(n int) (mayfly.Item, *halfBirths) {
	h.Helper()
	item := h.story(n)
	h.change(item.ID, mayfly.Change{To: mayfly.Deleted, Cause: mayfly.ByUser})
	h.must(h.real.Ledger.Remove(context.Background(), item.ID))
	l := &halfBirths{Ledger: h.set.Ledger, bodies: []mayfly.ID{item.ID}}
	h.set.Ledger = l
	return item, l
}

func TestTheBodyOfAnAbandonedBirthGoesWithTheAccount(t *testing.T) {
	h := open(t)
	item, l := h.halfBorn(0)
	l.named = func(id mayfly.ID) bool {
		found, err := h.real.Rows.Get(t.Context(), store.Owners, store.OwnerKey(ana(), id))
		h.must(err)
		return len(found[0]) > 0
	}
	if !l.named(item.ID) {
		t.Fatal("nothing leads to it")
	}
	h.now = h.now.Add(time.Minute)
	if _, err := h.accounted().Account(t.Context(), ana(), "support", "asked to", h.now); err != nil {
		t.Fatal(err)
	}
	if len(l.bodies) > 0 || l.lost || l.named(item.ID) {
		t.Errorf("left are %v; erased when nothing led there: %t", l.bodies, l.lost)
	}
}

func TestTheBodyOfAnAbandonedBirthGoesWithItsMedia(t *testing.T) {
	h := open(t)
	item, l := h.halfBorn(1)
	l.named = func(mayfly.ID) bool {
		_, err := h.real.Hot.Stat(t.Context(), item.MediaKey(mayfly.Born, 0))
		return err == nil
	}
	if !l.named(item.ID) {
		t.Fatal("nothing leads to it")
	}
	h.now = item.ID.Deadline().Add(2 * day)
	if r := h.collect(false); r.Deleted != 1 {
		t.Fatalf("%+v", r)
	}
	if len(l.bodies) > 0 || l.lost || l.named(item.ID) {
		t.Errorf("left are %v; erased when nothing led there: %t", l.bodies, l.lost)
	}
}
