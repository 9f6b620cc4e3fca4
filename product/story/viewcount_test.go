package story_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/product/story"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/fixture"
)

// another returns the stories of another process on the same store.
func (e *env) another(node string) *story.Stories {
	e.Helper()
	o := e.options
	o.Node = node
	s, err := story.New(o)
	e.Must(err)
	return s
}

// seenBy records views of n users, whose names begin with prefix.
func (e *env) seenBy(s *story.Stories, id mayfly.ID, prefix string, n int) {
	e.Helper()
	for i := range n {
		e.Must(s.View(e.Context(), id, mayfly.ViewerOf(user(fmt.Sprint(prefix, i))), e.clock()))
	}
}

// wantCount asserts the count that the author is shown.
func (e *env) wantCount(s *story.Stories, id mayfly.ID, want int) {
	e.Helper()
	count, _, _, err := s.Viewers(e.Context(), id, mayfly.ViewerOf(user("ana")), "", 0, e.clock())
	if count != want || err != nil {
		e.Errorf("%d viewers, want %d: %v", count, want, err)
	}
}

// countWalk returns what does the reminders to count the views of a story.
func (e *env) countWalk(s *story.Stories, id mayfly.ID, origin mayfly.Instant) *remind.Walker {
	e.Helper()
	shard := walk.NewShard(e.Set.Rows, id.Shard(), "test", time.Minute, origin)
	w, err := remind.New(e.Set, shard, remind.Acts{remind.Count: s.FinishViews}, remind.Options{Settle: time.Second})
	e.Must(err)
	return w
}

func (e *env) passReminders(w *remind.Walker) {
	e.Helper()
	for more := true; more; {
		var err error
		more, err = w.Pass(e.Context(), e.clock())
		e.Must(err)
	}
}

func (e *env) finish(s *story.Stories, id mayfly.ID) {
	e.Helper()
	e.WantActed(s.FinishViews(e.Context(), walk.Batch{Items: e.Rows(id), Now: e.clock()}))
}

// dropViews removes the views of a story, as a store does after their time.
func (e *env) dropViews(id mayfly.ID) {
	e.Helper()
	var b store.Batch
	for slice := range story.ViewSlices {
		b.DeletePartition(story.Views, store.SlicePartition(id, slice))
	}
	e.Must(e.Set.Writer.Commit(e.Context(), &b))
}

func TestNodesAddTheirCountsAndARestartGoesOn(t *testing.T) {
	e := open(t)
	id := e.publish(e.draft()).Item.ID
	other := e.another("other")
	e.seenBy(e.stories, id, "a", 5)
	e.seenBy(other, id, "b", 3)
	e.seenBy(other, id, "a", 5) // they are counted already
	e.Must(e.stories.StoreViewCounts(t.Context()))
	e.Must(other.StoreViewCounts(t.Context()))
	e.wantCount(e.stories, id, 8)
	e.wantCount(other, id, 8)
	again := e.another("other")
	e.wantCount(again, id, 8)
	e.seenBy(again, id, "c", 2)
	e.wantCount(again, id, 10)
	e.Must(again.StoreViewCounts(t.Context()))
	e.wantCount(e.stories, id, 10)
}

func TestAViewerWhoComesAtOnceManyTimesCountsOnce(t *testing.T) {
	e := open(t)
	id := e.publish(e.draft()).Item.ID
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			if err := e.stories.View(t.Context(), id, mayfly.ViewerOf(user("ben")), e.clock()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	e.wantCount(e.stories, id, 1)
}

// A node that crashes has not stored its last counts. The rows are counted when the
// views end, by a reminder that is durable before the first of them.
func TestTheFinalCountIsThatOfTheRowsAndStays(t *testing.T) {
	e := open(t)
	id := e.publish(e.draft()).Item.ID
	w := e.countWalk(e.stories, id, e.clock())
	e.seenBy(e.another("crashed"), id, "a", 700)
	e.wantCount(e.stories, id, 0)
	e.at(id.Birth().Add(48*time.Hour + 5*time.Minute))
	e.passReminders(w)
	e.wantCount(e.stories, id, 0)
	e.at(id.Birth().Add(49 * time.Hour))
	e.passReminders(w)
	e.wantCount(e.stories, id, 700)

	e.dropViews(id)
	e.pass(300 * 24 * time.Hour)
	e.finish(e.stories, id)
	e.wantCount(e.stories, id, 700)
	e.wantCount(e.another("restarted"), id, 700)
}

// Views are stored for a day after their end. Who counts later takes what the nodes
// have counted.
func TestACountAfterALongOutageIsThatOfTheNodes(t *testing.T) {
	e := open(t)
	id := e.publish(e.draft()).Item.ID
	e.seenBy(e.stories, id, "a", 3)
	e.Must(e.stories.StoreViewCounts(t.Context()))
	e.at(id.Birth().Add(72 * time.Hour))
	e.dropViews(id)
	again := e.another("node")
	e.finish(again, id)
	e.wantCount(again, id, 3)
}

func TestAFinalCountThatMeetsADeleteLeavesNoRow(t *testing.T) {
	h := &fixture.Hooks{}
	e := open(t, func(o *settings) { *o.Set = fixture.Hook(*o.Set, h) })
	id := e.publish(e.draft()).Item.ID
	e.seenBy(e.stories, id, "a", 2)
	e.at(id.Birth().Add(49 * time.Hour))
	row := e.Row(id)
	counted := false
	h.Commit = func(_ context.Context, _ *store.Batch, do func() error) error {
		if !counted { // it is deleted and erased after its row was read
			counted = true
			e.Must(e.stories.Delete(t.Context(), id, user("ana"), e.clock()))
			e.WantActed(e.erase.Act(t.Context(), walk.Batch{Items: e.Rows(id), Now: e.clock()}))
		}
		return do()
	}
	e.WantActed(e.stories.FinishViews(t.Context(), walk.Batch{Items: []mayfly.Item{row}, Now: e.clock()}))
	if n := e.count(story.ViewCounts, string(id[:])); n != 0 || !counted {
		t.Errorf("%d rows are left of a story that is erased", n)
	}
}

func TestTheCountGoesWithItsStory(t *testing.T) {
	e := open(t)
	id := e.publish(e.draft()).Item.ID
	e.seenBy(e.stories, id, "a", 2)
	e.Must(e.stories.StoreViewCounts(t.Context()))
	e.finish(e.stories, id)
	if n := e.count(story.ViewCounts, string(id[:])); n != 2 {
		t.Fatalf("%d rows", n)
	}
	e.Must(e.stories.Delete(t.Context(), id, user("ana"), e.clock()))
	e.WantActed(e.erase.Act(t.Context(), walk.Batch{Items: e.Rows(id), Now: e.clock()}))
	if n := e.count(story.ViewCounts, string(id[:])); n != 0 {
		t.Errorf("%d rows", n)
	}
}

func TestCountsAreStoredASecondAfterAViewAndAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t)
		id := e.publish(e.draft()).Item.ID
		s := e.another("looped")
		s.Start(t.Context())
		time.Sleep(time.Minute)
		e.seenBy(s, id, "a", 3)
		if n := e.count(story.ViewCounts, string(id[:])); n != 0 {
			t.Errorf("%d counts are stored at once", n)
		}
		e.wantCount(e.stories, id, 3) // by the list, which is complete
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		if n := e.count(story.ViewCounts, string(id[:])); n != 1 {
			t.Errorf("%d counts are stored after a second", n)
		}
		e.wantCount(e.stories, id, 3)
		e.seenBy(s, id, "b", 1)
		e.Must(s.Stop(t.Context()))
		e.wantCount(e.stories, id, 4)
	})
}
