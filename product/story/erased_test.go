package story_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/accounterase"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/product/story"
	"github.com/mayflyhq/mayfly/store"
)

// meanwhile reads bytes, and does something before the first of them comes.
type meanwhile struct {
	io.Reader
	do func()
}

func (m *meanwhile) Read(p []byte) (int, error) {
	if m.do != nil {
		do := m.do
		m.do = nil
		do()
	}
	return m.Reader.Read(p)
}

func TestAMediumThatArrivesBehindTheErasureOfItsAccountGoes(t *testing.T) {
	h := open(t)
	log, err := audit.Open(t.Context(), h.set.Rows, "erasure", h.clock())
	h.must(err)
	e, err := accounterase.New(h.set, h.erase, accounterase.Options{Audit: log, Deletions: h.set.Cold})
	h.must(err)
	r := h.reserve(2)
	h.must(h.put(r.Upload, 1, photo(t, 1)))
	body := &meanwhile{bytes.NewReader(photo(t, 2)), func() {
		receipt, err := e.Account(t.Context(), user("ana"), "support", "asked to", h.clock())
		h.must(err)
		if receipt.Objects != 1 || receipt.Rows[store.Reservations.String()] != 1 {
			t.Errorf("%+v", receipt)
		}
	}}
	if _, err := h.stories.Put(t.Context(), user("ana"), r.Upload, 0, body, h.clock()); !errors.Is(err, mayfly.NotFound) {
		t.Error(err)
	}
	if body.do != nil || h.objects(h.set.Hot) != 0 {
		t.Errorf("%d objects are left", h.objects(h.set.Hot))
	}
}

func TestAStoryThatIsHeldWhileItIsCopiedIsNotSharedAgain(t *testing.T) {
	h := open(t)
	id := h.publish(h.draft()).Item.ID
	looks := 0
	now := func() mayfly.Instant {
		if looks++; looks == 3 { // it was judged, and the copy begins
			h.must(h.restore.Hold(t.Context(), id, "ben", "case 9", h.clock()))
		}
		return h.clock()
	}
	_, err := h.stories.Reshare(t.Context(), id, user("ana"), story.Change{}, "", now)
	if !errors.Is(err, mayfly.NotFound) || !h.row(id).Held {
		t.Errorf("%v", err)
	}
	if n := h.objects(h.set.Hot); n != 1 {
		t.Errorf("%d objects", n)
	}
}
