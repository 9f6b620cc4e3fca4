package gate_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/gate"
)

// A refused caller who can measure how much the store is read must not learn
// whether the item exists (I18).
func TestARefusalCostsTheSameReadsWhateverItsReason(t *testing.T) {
	relations, compared := 0, 0
	for name, rows := range map[string]int{"cold": -1, "warm": 0} {
		h := open(t, gate.Options{CacheRows: rows, Relations: func(_ context.Context, _ mayfly.UserID, owners ...mayfly.UserID) ([]mayfly.Relation, error) {
			relations += len(owners)
			return make([]mayfly.Relation, len(owners)), nil
		}})
		put := func(random uint64, audience mayfly.Audience) mayfly.ID {
			item := story(t)
			item.ID, item.Audience = newID(t, ana, random), audience
			h.put(item, mayfly.Body{Text: "sea"})
			return item.ID
		}
		ids := map[string]mayfly.ID{
			"followers": put(11, mayfly.Followers), "close friends": put(12, mayfly.CloseFriends), "deleted": put(13, mayfly.Everyone),
			"held": put(14, mayfly.Everyone), "never was": newID(t, ana, 15),
		}
		h.move(ids["deleted"], mayfly.Deleted)
		h.move(ids["held"], mayfly.Active, hold)
		h.want(newID(t, ana, 16), mayfly.Viewer{}, deadline, gate.Gone) // loads the restored set
		for _, v := range []mayfly.Viewer{{}, mayfly.ViewerOf(ben)} {
			for _, now := range []mayfly.Instant{birth + 1000, birth.Add(time.Hour), deadline} {
				for round := range 3 { // the first fills the cache
					seen := map[string]string{}
					for reason, id := range ids {
						h.lookups()
						relations = 0
						if _, err := h.gate.Open(t.Context(), id, v, now); err != gate.Refusal(id, now) {
							t.Errorf("%s: %v", reason, err)
						}
						cost := fmt.Sprintf("%d rows, %d bodies, %d other, %d relations", h.look("ledger get"), h.look("body"), h.look("rows get")+h.look("range"), relations)
						seen[cost] += " " + reason
						compared++
					}
					if len(seen) != 1 {
						t.Errorf("%s, user %t, %s after birth, round %d: %v", name, !v.User().IsZero(), now.Sub(birth), round, seen)
					}
				}
			}
		}
	}
	t.Logf("%d refusals compared", compared)
}

// Index entries are written before rows: a list may ask for an id whose row is on
// its way.
func TestAnItemAskedForBeforeItsRowIsStoredIsServedOnceItIs(t *testing.T) {
	h := open(t, gate.Options{})
	for i, list := range []bool{false, true} {
		item := story(t)
		item.ID, item.Audience = newID(t, ana, uint64(20+i)), mayfly.Everyone
		shown := func() bool {
			if !list {
				_, err := h.open(item.ID, mayfly.Viewer{}, birth+1000)
				return err == nil
			}
			all, err := h.gate.OpenAll(t.Context(), []mayfly.ID{item.ID}, mayfly.Viewer{}, birth+1000)
			return err == nil && len(all) == 1
		}
		if shown() {
			t.Error("shown before it is stored")
		}
		if h.put(item, mayfly.Body{Text: "sea"}); !shown() {
			t.Errorf("not shown once it is stored; in a list: %t", list)
		}
	}
}
