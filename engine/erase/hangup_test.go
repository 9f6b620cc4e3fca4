package erase_test

import (
	"context"
	"errors"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// hangup is a ledger behind which the asker goes as soon as a row has moved: the
// answer is lost, and nothing is read in a context that has ended.
type hangup struct {
	store.Ledger
	hang context.CancelFunc
	away bool // nor is anything read after that
	gone *bool
}

func (l hangup) Transition(ctx context.Context, changes []mayfly.Change) ([]store.Outcome, error) {
	_, err := l.Ledger.Transition(ctx, changes)
	l.hang()
	*l.gone = true
	return nil, errors.Join(err, mayfly.Errorf(mayfly.Unknown, "the answer is lost"))
}

func (l hangup) Get(ctx context.Context, ids ...mayfly.ID) ([]store.Found, error) {
	if ctx.Err() != nil || l.away && *l.gone {
		return nil, mayfly.Errorf(mayfly.Unavailable, "nothing is read any more")
	}
	return l.Ledger.Get(ctx, ids...)
}

// topics counts the signals about an item.
func (h *house) topics(id mayfly.ID) map[store.Topic]int {
	h.Helper()
	topics := map[store.Topic]int{}
	sub, err := h.real.Signals.Subscribe(h.Context(), func(s store.Signal) {
		if s.ID == id {
			topics[s.Topic]++
		}
	})
	h.must(err)
	h.Cleanup(func() { h.must(sub.Close()) })
	return topics
}

func TestADeleteWhoseAskerHangsUpTellsTheCachesAllTheSame(t *testing.T) {
	h := open(t)
	item := h.story(1)
	told := h.topics(item.ID)
	ctx, hang := context.WithCancel(t.Context())
	h.set.Ledger = hangup{Ledger: h.real.Ledger, hang: hang, gone: new(bool)}
	row, err := h.eraser().Delete(ctx, item.ID, mayfly.ByUser, h.now)
	if err != nil || row.State != mayfly.Deleted || told[store.RowChanged] != 1 || h.told(mayfly.WasDeleted)[item.ID] != 1 {
		t.Fatalf("%+v, %v; told %v", row, err, told)
	}
}

func TestADeleteOfWhichNothingIsKnownTellsTheCachesAllTheSame(t *testing.T) {
	h := open(t)
	item := h.story(1)
	told := h.topics(item.ID)
	h.set.Ledger = hangup{Ledger: h.real.Ledger, hang: func() {}, away: true, gone: new(bool)}
	if _, err := h.eraser().Delete(t.Context(), item.ID, mayfly.ByUser, h.now); !errors.Is(err, mayfly.Unknown) {
		t.Fatal(err)
	}
	if h.row(item.ID).State != mayfly.Deleted || told[store.RowChanged] != 1 {
		t.Fatalf("told %v", told)
	}
}

func TestTheReminderOfADeletionTellsTheCachesOnce(t *testing.T) {
	h := open(t)
	item, held, other := h.story(1), h.story(1), h.story(1)
	h.hold(held.ID)
	for _, id := range []mayfly.ID{item.ID, held.ID} { // whoever did it told nobody
		h.change(id, mayfly.Change{To: mayfly.Deleted, Cause: mayfly.ByUser})
	}
	told, heldTold, otherTold := h.topics(item.ID), h.topics(held.ID), h.topics(other.ID)
	for range 2 { // finished is finished
		h.act(item, held, other)
	}
	if told[store.RowChanged] != 1 || heldTold[store.RowChanged] != 2 || len(otherTold) != 0 {
		t.Fatalf("told %v, held %v, other %v", told, heldTold, otherTold)
	}
}
