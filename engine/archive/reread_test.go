package archive_test

import (
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/hydrate"
)

// I21: the hold comes when the verified cold copy is in the row and hot is not
// erased yet.
func TestAHoldBetweenTheNamingOfColdAndTheErasingOfHotKeepsBoth(t *testing.T) {
	h := open(t)
	items := h.expire(h.story(2), h.story(1))
	h.stopAt("name", func() {
		h.change(items[0].ID, mayfly.Change{To: mayfly.Archiving, Hold: mayfly.SetHold, Cause: mayfly.BySupport})
	})
	if failures, err := h.archive(7, items...); err != nil || len(failures) > 0 {
		t.Fatal(failures, err)
	}
	held := h.row(items[0].ID)
	if !held.Held || held.State != mayfly.Archiving || held.Keys.Hot == 0 || held.Keys.Cold == 0 {
		t.Fatalf("%+v", held)
	}
	h.exact(items...) // hot of the held one is there, of the other it is not
	if other := h.row(items[1].ID); other.State != mayfly.Cold {
		t.Fatalf("the other item of the batch: %+v", other)
	}

	h.set = h.real
	h.change(held.ID, mayfly.Change{To: mayfly.Archiving, Hold: mayfly.ReleaseHold, Cause: mayfly.BySupport})
	if failures, err := h.archive(8, h.row(held.ID)); err != nil || len(failures) > 0 {
		t.Fatal(failures, err)
	}
	h.readable(held.ID, hydrate.Cold)
	h.exact(items...)
}
