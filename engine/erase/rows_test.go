package erase_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/erase"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/product/story"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/erasure"
	"github.com/mayflyhq/mayfly/test/fixture"
)

func TestViewsGoWithTheirStoryFromEverySliceAndNoOthers(t *testing.T) {
	fx := erasure.Open(t)
	item, other := fx.Story(1), fx.Story(1)
	random := fixture.Seeded(t)
	var viewers []mayfly.UserID
	for n := range 3 * story.ViewSlices { // some in every slice
		var viewer mayfly.UserID
		for i := range viewer {
			viewer[i] = byte(random.Uint32())
		}
		viewer[15] = byte(n)
		viewers = append(viewers, viewer)
		fx.View(item, viewer)
		fx.View(other, viewer)
	}
	for range 1_100 { // more than a page in one slice
		var viewer mayfly.UserID
		for i := range viewer {
			viewer[i] = byte(random.Uint32())
		}
		viewer[15] = 7
		fx.View(item, viewer)
	}
	deleted, err := fx.Eraser().Delete(t.Context(), item.ID, mayfly.ByUser, fx.Now)
	fx.Must(err)
	fx.Act(deleted)
	kept := 0
	for n := range story.ViewSlices {
		if left := len(fx.Partition(story.Views, store.SlicePartition(item.ID, n))); left > 0 {
			t.Errorf("slice %d: %d views are left", n, left)
		}
		kept += len(fx.Partition(story.Views, store.SlicePartition(other.ID, n)))
	}
	if kept != len(viewers) {
		t.Errorf("of another story's %d views %d are left", len(viewers), kept)
	}
	for _, viewer := range viewers {
		if len(fx.Partition(story.Seen, string(viewer[:]))) != 1 {
			t.Fatal("what a viewer has seen is not the other story alone")
		}
	}
}

// passing counts the rows that ranges over Views pass, deleted ones included: a
// store goes over what was deleted lately.
type passing struct {
	store.Rows
	keys   []string // the clustering keys of all views, in order
	passed atomic.Int64
}

func (p *passing) Range(ctx context.Context, t store.Table, r store.Range) ([]store.Row, error) {
	rows, err := p.Rows.Range(ctx, t, r)
	if t == story.Views && len(rows) > 0 {
		first, _ := slices.BinarySearch(p.keys, r.From)
		last, _ := slices.BinarySearch(p.keys, rows[len(rows)-1].Clustering)
		p.passed.Add(int64(last - first + 1))
	}
	return rows, err
}

func TestEachViewIsPassedOnceWhileTheyAreErased(t *testing.T) {
	fx := erasure.Open(t)
	item := fx.Story(0)
	p := &passing{Rows: fx.Set.Rows}
	for n := range 5_000 { // all in one slice
		viewer := mayfly.UserID{byte(n >> 8), byte(n), 15: story.ViewSlices}
		fx.View(item, viewer)
		p.keys = append(p.keys, string(viewer[:]))
	}
	deleted, err := fx.Eraser().Delete(t.Context(), item.ID, mayfly.ByUser, fx.Now)
	fx.Must(err)
	set := fx.Set
	set.Rows = p
	e, err := erase.New(set, erase.Options{})
	fx.Must(err)
	fx.WantActed(e.Act(t.Context(), walk.Batch{Items: []mayfly.Item{deleted}, Now: fx.Now}))
	if passed, left := p.passed.Load(), len(fx.Partition(story.Views, store.SlicePartition(item.ID, 0))); passed != 5_000 || left != 0 {
		t.Errorf("5,000 views were erased by passing %d, %d are left", passed, left)
	}
}

func TestTheViewsOfWhatIsHeldStay(t *testing.T) {
	fx := erasure.Open(t)
	item := fx.Story(0)
	fx.View(item, erasure.Follower(fixture.Ana()))
	fx.Hold(item.ID)
	deleted, err := fx.Eraser().Delete(t.Context(), item.ID, mayfly.ByUser, fx.Now)
	fx.Must(err)
	fx.Act(deleted)
	if len(fx.Partition(story.Views, story.ViewKey(item.ID, erasure.Follower(fixture.Ana())).Partition)) != 1 {
		t.Error("the view of a held story is gone (I21)")
	}
}

// far is how long a call takes to a store that is a network away.
const far = 2 * time.Millisecond

// A story has 64 slices of views: one behind the other, a batch of 500 would take
// a minute, and no walk waits that long.
func TestTheViewsOfABatchAreLookedForSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := erasure.Open(t)
		var items []mayfly.Item
		for range 20 {
			item := fx.Story(0)
			if _, err := fx.Eraser().Delete(t.Context(), item.ID, mayfly.ByUser, fx.Now); err != nil {
				t.Fatal(err)
			}
			items = append(items, item)
		}
		var calls atomic.Int64
		fx.Hooks.Range = func(_ context.Context, _ store.Table, do func() ([]store.Row, error)) ([]store.Row, error) {
			calls.Add(1)
			time.Sleep(far)
			return do()
		}
		begun := time.Now()
		if failures, err := fx.Eraser().Act(t.Context(), walk.Batch{Items: items, Now: fx.Now, Repeat: true}); err != nil || len(failures) > 0 {
			t.Fatal(failures, err)
		}
		if took, n := time.Since(begun), calls.Load(); n != 20*64 || took > 50*far {
			t.Errorf("%d calls took %s", n, took)
		}
	})
}

func TestRenditionsDieWithTheirItemInBothTiers(t *testing.T) {
	fx := erasure.Open(t)
	item, other := fx.Picture(2), fx.Picture(2)
	fx.Renditions(item, fx.Real.Hot, mayfly.Born)
	fx.Renditions(item, fx.Real.Cold, 2) // of a claim that broke off
	fx.Renditions(item, fx.Real.Hot, 3)  // of a restore
	kept := fx.Renditions(other, fx.Real.Hot, mayfly.Born)
	_, err := fx.Eraser().Delete(t.Context(), item.ID, mayfly.ByUser, fx.Now)
	fx.Must(err)
	fx.Act(item)
	if left := fx.Traces(item); len(left) > 0 || len(fx.Partition(upload.Renditions, string(item.ID[:]))) != 0 {
		t.Errorf("%v and %d descriptions are left", left, len(fx.Partition(upload.Renditions, string(item.ID[:]))))
	}
	for _, key := range kept {
		if !slices.Contains(fx.Objects(fx.Real.Hot), key) {
			t.Errorf("%s of another is gone", key)
		}
	}
	if len(fx.Partition(upload.Renditions, string(other.ID[:]))) != 4 {
		t.Error("another's descriptions are gone")
	}
}

func TestRenditionsOfWhatIsHeldStay(t *testing.T) {
	fx := erasure.Open(t)
	item := fx.Picture(2)
	keys := fx.Renditions(item, fx.Real.Hot, mayfly.Born)
	fx.Hold(item.ID)
	_, err := fx.Eraser().Delete(t.Context(), item.ID, mayfly.ByUser, fx.Now)
	fx.Must(err)
	fx.Act(item)
	for _, key := range keys {
		if !slices.Contains(fx.Objects(fx.Real.Hot), key) {
			t.Errorf("%s is gone", key)
		}
	}
}
