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
	items := h.expire(h.Story(2), h.Story(1))
	h.stopAt("name", func() {
		h.Change(items[0].ID, mayfly.Change{To: mayfly.Archiving, Hold: mayfly.SetHold, Cause: mayfly.BySupport})
	})
	h.archived(7, items...)
	held := h.Row(items[0].ID)
	if !held.Held || held.State != mayfly.Archiving || held.Keys.Hot == 0 || held.Keys.Cold == 0 {
		t.Fatalf("%+v", held)
	}
	h.WantNamed(items...) // hot of the held one is there, of the other it is not
	if other := h.Row(items[1].ID); other.State != mayfly.Cold {
		t.Fatalf("the other item of the batch: %+v", other)
	}

	h.Set = h.Real
	h.Change(held.ID, mayfly.Change{To: mayfly.Archiving, Hold: mayfly.ReleaseHold, Cause: mayfly.BySupport})
	h.archived(8, h.Row(held.ID))
	h.readable(hydrate.Cold, held)
	h.WantNamed(items...)
}
