package story_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/product/story"
	"github.com/mayflyhq/mayfly/test/fixture"
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
	e := open(t)
	r := e.reserve(2)
	e.Must(e.put(r.Upload, 1, photo(t, 1)))
	body := &meanwhile{bytes.NewReader(fixture.Padded(photo(t, 2))), func() {
		receipt, err := e.accounts.Account(t.Context(), user("ana"), audit.Actor{Subject: "support"}, "asked to", e.clock())
		e.Must(err)
		if receipt.Objects != 1 || receipt.Rows[upload.Reservations.String()] != 1 {
			t.Errorf("%+v", receipt)
		}
	}}
	if _, err := e.uploads.Put(t.Context(), user("ana"), r.Upload, 0, body, e.clock()); !errors.Is(err, mayfly.NotFound) {
		t.Error(err)
	}
	if body.do != nil || e.objects(e.Set.Hot) != 0 {
		t.Errorf("%d objects are left", e.objects(e.Set.Hot))
	}
}

func TestAStoryThatIsHeldWhileItIsCopiedIsNotSharedAgain(t *testing.T) {
	e := open(t)
	id := e.publish(e.draft()).Item.ID
	looks := 0
	now := func() mayfly.Instant {
		if looks++; looks == 3 { // it was judged, and the copy begins
			e.Must(e.restore.Hold(t.Context(), id, audit.Actor{Subject: "ben"}, "case 9", e.clock()))
		}
		return e.clock()
	}
	_, err := e.stories.Reshare(t.Context(), id, user("ana"), story.Change{}, "", now)
	if !errors.Is(err, mayfly.NotFound) || !e.Row(id).Held {
		t.Errorf("%v", err)
	}
	if n := e.objects(e.Set.Hot); n != 1 {
		t.Errorf("%d objects", n)
	}
}
