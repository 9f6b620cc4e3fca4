package erase_test

import (
	"context"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/store"
)

// follower is somebody who follows the user.
func follower(of mayfly.UserID) mayfly.UserID {
	return mayfly.UserOf("test", "follower of "+of.String())
}

func (h *house) swapIn(t store.Table, key store.Key) {
	h.Helper()
	swapped, _, err := h.real.Rows.Swap(context.Background(), t, key, nil, []byte{1, byte(mayfly.Follower)}, 0)
	if h.must(err); !swapped {
		h.Fatalf("%s: there is a row already", t)
	}
}

// relate says how owner stands to other, in both directions.
func (h *house) relate(owner, other mayfly.UserID) {
	h.Helper()
	h.swapIn(store.Related, store.RelatedKey(other, owner))
	h.swapIn(store.Relations, store.RelationKey(owner, other))
}

func (h *house) putRows(rows map[store.Table]store.Key) {
	h.Helper()
	var b store.Batch
	for t, key := range rows {
		b.Put(t, key, []byte{1}, 0)
	}
	h.must(h.real.Writer.Commit(context.Background(), &b))
}

// view says that viewer has seen the item.
func (h *house) view(item mayfly.Item, viewer mayfly.UserID) {
	h.Helper()
	h.putRows(map[store.Table]store.Key{store.Views: store.ViewKey(item.ID, viewer), store.Seen: store.SeenKey(viewer, item.ID)})
}

// acquaint gives a user with items something in every table that others' rows
// are in too: relations both ways, views both ways, tokens, uploads under way.
func (h *house) acquaint(user mayfly.UserID, items []mayfly.Item) {
	h.Helper()
	other := follower(user)
	h.relate(user, other)
	h.relate(other, user)
	h.swapIn(store.Families, store.Key{Partition: string(user[:]), Clustering: "a family"})
	h.reserve(user, h.newID(user))
	for _, item := range items {
		h.view(item, other)
	}
	theirs := h.publish(intake.Draft{Owner: other, Fate: mayfly.Archive}, 0)
	h.view(theirs, user)
}

func (h *house) count(t store.Table, partition string) int {
	h.Helper()
	rows, err := h.real.Rows.Range(context.Background(), t, store.Range{Partition: partition, Limit: 10_000})
	h.must(err)
	return len(rows)
}

func TestRelationsGoInBothDirectionsWithTheAccount(t *testing.T) {
	h := open(t)
	other := follower(ana())
	h.relate(ana(), other)
	h.relate(other, ana())
	h.relate(ben(), other)
	r, err := h.accounted().Account(t.Context(), ana(), "support", "asked to", h.now)
	if err != nil || r.Rows["relations"] != 2 || r.Rows["related"] != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, table := range []store.Table{store.Relations, store.Related} {
		if a := ana(); h.count(table, string(a[:])) != 0 {
			t.Errorf("%s: rows under the erased name are left", table)
		}
	}
	if h.count(store.Relations, string(other[:])) != 0 || h.count(store.Related, string(other[:])) != 1 {
		t.Error("the other side still names the erased, or has lost what names somebody else")
	}
}

func TestTheScanFindsRelationsAndViewsThatNoRowOfTheUserTellsOf(t *testing.T) {
	h := open(t)
	bens := h.publish(intake.Draft{Owner: ben(), Fate: mayfly.Archive}, 0)
	if got := h.scan(ana()); got.Count != 0 {
		t.Fatalf("%+v", got)
	}
	h.putRows(map[store.Table]store.Key{store.Views: store.ViewKey(bens.ID, ana())})
	h.swapIn(store.Relations, store.RelationKey(ben(), ana()))
	h.swapIn(store.Related, store.RelatedKey(ben(), ana()))
	if got := h.scan(ana()); got.Count != 3 {
		t.Fatalf("%+v", got)
	}
	mine := h.story(0)
	h.putRows(map[store.Table]store.Key{store.Views: store.ViewKey(mine.ID, ben())})
	h.putRows(map[store.Table]store.Key{store.Renditions: {Partition: string(mine.ID[:]), Clustering: "\x0a"}})
	_, err := h.eraser().Delete(t.Context(), mine.ID, mayfly.ByUser, h.now)
	h.must(err)
	if got := h.scan(ana()); got.Count != 3+2+2 { // and the body, and the index
		t.Fatalf("%+v", got)
	}
}

func TestViewsGoWithTheirStoryFromEverySliceAndNoOthers(t *testing.T) {
	h := open(t)
	item, other := h.story(1), h.story(1)
	random := seeded(t)
	var viewers []mayfly.UserID
	for n := range 3 * store.ViewSlices { // some in every slice
		var viewer mayfly.UserID
		for i := range viewer {
			viewer[i] = byte(random.Uint32())
		}
		viewer[15] = byte(n)
		viewers = append(viewers, viewer)
		h.view(item, viewer)
		h.view(other, viewer)
	}
	for range 1_100 { // more than a page in one slice
		var viewer mayfly.UserID
		for i := range viewer {
			viewer[i] = byte(random.Uint32())
		}
		viewer[15] = 7
		h.view(item, viewer)
	}
	deleted, err := h.eraser().Delete(t.Context(), item.ID, mayfly.ByUser, h.now)
	h.must(err)
	h.act(deleted)
	kept := 0
	for n := range store.ViewSlices {
		if left := h.count(store.Views, store.ViewPartition(item.ID, n)); left > 0 {
			t.Errorf("slice %d: %d views are left", n, left)
		}
		kept += h.count(store.Views, store.ViewPartition(other.ID, n))
	}
	if kept != len(viewers) {
		t.Errorf("of another story's %d views %d are left", len(viewers), kept)
	}
	for _, viewer := range viewers {
		if h.count(store.Seen, string(viewer[:])) != 1 {
			t.Fatal("what a viewer has seen is not the other story alone")
		}
	}
}

func TestWhatAnErasedViewerHasSeenIsForgottenOnBothSides(t *testing.T) {
	h := open(t)
	bens := h.publish(intake.Draft{Owner: ben(), Fate: mayfly.Archive}, 0)
	for range 250 { // more than a page
		h.now = h.now.Add(time.Millisecond)
		h.view(mayfly.Item{ID: h.newID(ben())}, ana())
	}
	h.view(bens, ana())
	h.view(bens, follower(ben()))
	r, err := h.accounted().Account(t.Context(), ana(), "support", "asked to", h.now)
	if err != nil || r.Rows["seen"] != 251 || r.Rows["views"] != 251 {
		t.Fatalf("%+v, %v", r, err)
	}
	if got := h.scan(ana()); got.Count != 0 {
		t.Fatalf("%+v", got)
	}
	if f := follower(ben()); h.count(store.Seen, string(f[:])) != 1 || h.count(store.Views, store.ViewKey(bens.ID, f).Partition) != 1 {
		t.Error("another's view is gone")
	}
}

func TestTheViewsOfWhatIsHeldStay(t *testing.T) {
	h := open(t)
	item := h.story(0)
	h.view(item, follower(ana()))
	h.hold(item.ID)
	deleted, err := h.eraser().Delete(t.Context(), item.ID, mayfly.ByUser, h.now)
	h.must(err)
	h.act(deleted)
	if h.count(store.Views, store.ViewKey(item.ID, follower(ana())).Partition) != 1 {
		t.Error("the view of a held story is gone (I21)")
	}
}
