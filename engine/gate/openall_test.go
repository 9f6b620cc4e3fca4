package gate_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/gate"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/fixture"
)

// many inserts count stories by ana, alternately for everyone and for followers.
func (h *engine) many(count int) []mayfly.ID {
	h.Helper()
	var ids []mayfly.ID
	for i := range count {
		id := newID(h, ana, uint64(i))
		audience := []mayfly.Audience{mayfly.Everyone, mayfly.Followers}[i%2]
		h.put(mayfly.Item{
			ID: id, Owner: ana, Product: mayfly.Story, Fate: mayfly.Archive, Audience: audience,
			State: mayfly.Active, Generation: mayfly.Born, Nonce: 1, Changed: birth,
		}, mayfly.Body{Text: id.String()})
		ids = append(ids, id)
	}
	return ids
}

func idsOf(opened []gate.Opened) []mayfly.ID {
	var ids []mayfly.ID
	for _, o := range opened {
		ids = append(ids, o.Item.ID)
	}
	return ids
}

// OpenAll is Open for each, in order: at the millisecond, cached or not, with the
// signals or without.
func TestOpenAllShowsExactlyWhatOpenShows(t *testing.T) {
	asked := 0
	h := open(t, gate.Options{Relations: fixture.OneByOne(func(_ context.Context, owner, viewer mayfly.UserID) (mayfly.Relation, error) {
		asked++
		return map[bool]mayfly.Relation{true: mayfly.Follower}[viewer == ben], nil
	})})
	ids := h.many(12)
	h.move(ids[3], mayfly.Deleted)
	h.move(ids[4], mayfly.Active, hold)
	h.move(ids[5], mayfly.ExpiredHot)
	h.restore(ids[6])
	ids = append(ids, newID(t, ana, 999)) // never was
	stranger := mayfly.UserOf("test", "stranger")
	viewers := []mayfly.Viewer{{}, mayfly.ViewerOf(ana), mayfly.ViewerOf(ben), mayfly.ViewerOf(stranger), mayfly.ModeratorOf(stranger)}
	for _, cut := range []bool{false, true, false} {
		h.wire.SetCut(cut)
		for range 2 {
			for _, now := range []mayfly.Instant{birth, deadline - 1, deadline, deadline + 1} {
				for _, v := range viewers {
					var want []mayfly.ID
					for _, id := range ids {
						if opened, err := h.gate.Open(t.Context(), id, v, now); err == nil {
							want = append(want, opened.Item.ID)
						}
					}
					got, err := h.gate.OpenAll(t.Context(), ids, v, now)
					if err != nil || !slices.Equal(idsOf(got), want) {
						t.Errorf("at %d: %d items (%v), want %d", now-deadline, len(got), err, len(want))
					}
					for _, o := range got {
						if o.Body.Text != o.Item.ID.String() || (o.Verdict == gate.Serve) == o.Item.EndedAt(now) {
							t.Errorf("%+v", o)
						}
					}
				}
			}
		}
	}
	for cut, want := range map[bool]int{false: 0, true: 1} {
		h.wire.SetCut(cut)
		asked = 0
		if _, err := h.gate.OpenAll(t.Context(), ids, mayfly.ViewerOf(ben), birth); err != nil || asked != want {
			t.Errorf("cut %t: relations of one owner were asked for %d times (%v)", cut, asked, err)
		}
		h.wire.SetCut(false)
		if _, err := h.gate.OpenAll(t.Context(), ids, mayfly.ViewerOf(ben), birth); err != nil {
			t.Error(err)
		}
	}
}

func TestOpenAllReadsWhatIsNotCachedInOneGoAndNothingTwice(t *testing.T) {
	h := open(t, gate.Options{})
	ids := h.many(50)
	h.lookups()
	for round, want := range []int64{2, 0} { // rows and bodies, then the cache
		if _, err := h.gate.OpenAll(t.Context(), ids, mayfly.ViewerOf(ana), birth); err != nil || h.lookups() != want {
			t.Errorf("round %d: %v", round, err)
		}
	}
	h.move(ids[7], mayfly.Deleted)
	h.signal(store.RowChanged, ids[7])
	opened, err := h.gate.OpenAll(t.Context(), ids, mayfly.ViewerOf(ana), birth)
	if err != nil || len(opened) != 49 || slices.Contains(idsOf(opened), ids[7]) {
		t.Errorf("%d, %v", len(opened), err)
	}
	h.lookups()
	if _, err := h.gate.OpenAll(t.Context(), ids, mayfly.Viewer{}, deadline); err != nil {
		t.Error(err)
	}
	if n := h.calls("ledger get"); n != 0 {
		t.Errorf("%d rows were read although the ids alone decide", n)
	}
	if opened, err := h.gate.OpenAll(t.Context(), nil, mayfly.Viewer{}, birth); len(opened) != 0 || err != nil {
		t.Error(opened, err)
	}
}

func TestOpenAllAnswersAnErrorRatherThanLess(t *testing.T) {
	broken := mayfly.Errorf(mayfly.Unavailable, "away")
	h := open(t, gate.Options{CacheRows: -1, Relations: fixture.OneByOne(func(context.Context, mayfly.UserID, mayfly.UserID) (mayfly.Relation, error) {
		return 0, broken
	})})
	ids := h.many(3)
	if _, err := h.gate.OpenAll(t.Context(), ids, mayfly.ViewerOf(ben), birth); !errors.Is(err, mayfly.Unavailable) {
		t.Error(err)
	}
	h.Hooks.Body = noBody
	if _, err := h.gate.OpenAll(t.Context(), ids, mayfly.ViewerOf(ana), birth); !errors.Is(err, mayfly.Corrupt) {
		t.Error(err)
	}
	h.afterGet(func() error { return broken })
	if _, err := h.gate.OpenAll(t.Context(), ids, mayfly.ViewerOf(ana), birth); !errors.Is(err, mayfly.Unavailable) {
		t.Error(err)
	}
}

func TestRestoredIdsAreFoundByTheirTrace(t *testing.T) {
	h := open(t, gate.Options{})
	ids := h.many(3)
	h.restore(ids[1], ids[2], newID(t, ben, 5))
	for _, cut := range []bool{false, true, false} {
		h.wire.SetCut(cut)
		got, err := h.gate.RestoredOf(t.Context(), ana, deadline)
		slices.SortFunc(got, mayfly.ID.Compare)
		if err != nil || !slices.Equal(got, ids[1:]) {
			t.Errorf("%v, %v", got, err)
		}
	}
	h.restore(ids[0])
	h.signal(store.RestoredSet, ids[0])
	if got, err := h.gate.RestoredOf(t.Context(), ana, deadline); len(got) != 3 || err != nil {
		t.Errorf("%v, %v", got, err)
	}
}
