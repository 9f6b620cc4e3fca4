package story_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/restore"
	"github.com/mayflyhq/mayfly/product/story"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/fixture"
)

func TestAViewIsNotedOnceWithItsFirstInstantAndSeenInTheRing(t *testing.T) {
	e := open(t)
	id := e.publish(e.draft()).Item.ID
	ben := mayfly.ViewerOf(user("ben"))
	e.pass(time.Minute)
	first := e.clock()
	for range 3 {
		e.Must(e.stories.View(t.Context(), id, ben, e.clock()))
		e.pass(time.Minute)
	}
	for _, v := range []mayfly.Viewer{{}, mayfly.ViewerOf(user("ana")), mayfly.ModeratorOf(user("moderator"))} {
		e.Must(e.stories.View(t.Context(), id, v, e.clock()))
	}
	count, views, next, err := e.stories.Viewers(t.Context(), id, mayfly.ViewerOf(user("ana")), "", 0, e.clock())
	e.Must(err)
	if count != 1 || len(views) != 1 || views[0].User != user("ben") || views[0].At != first || next != "" {
		t.Errorf("%d, %+v, %q", count, views, next)
	}
	for _, tc := range []struct {
		viewer mayfly.Viewer
		seen   bool
	}{{ben, true}, {mayfly.ViewerOf(user("stranger")), false}, {mayfly.Viewer{}, false}} {
		ring, err := e.stories.Ring(t.Context(), user("ana"), tc.viewer, e.clock())
		e.Must(err)
		if len(ring) != 1 || ring[0].Seen != tc.seen {
			t.Errorf("%+v", ring)
		}
	}
}

func TestAViewAtTheDeadlineDoesNotCount(t *testing.T) {
	e := open(t)
	id := e.publish(e.draft()).Item.ID
	ben := mayfly.ViewerOf(user("ben"))
	if err := e.stories.View(t.Context(), id, ben, id.Deadline()); err != mayfly.Gone {
		t.Error(err)
	}
	e.Must(e.stories.View(t.Context(), id, mayfly.ViewerOf(user("ana")), id.Deadline()))
	seen := user("ben")
	if count, _, _, err := e.stories.Viewers(t.Context(), id, mayfly.ViewerOf(user("ana")), "", 0, id.Deadline()); count != 0 || err != nil || e.count(story.Seen, string(seen[:])) != 0 {
		t.Error(count, err)
	}
	e.Must(e.stories.View(t.Context(), id, ben, id.Deadline()-1))
	if count, _, _, err := e.stories.Viewers(t.Context(), id, mayfly.ViewerOf(user("ana")), "", 0, id.Deadline()); count != 1 || err != nil {
		t.Error(count, err)
	}
}

func TestViewersAreCountedAndPagedExactlyAndForgottenInTime(t *testing.T) {
	e := open(t)
	id := e.publish(e.draft()).Item.ID
	const viewers = 537
	for i := range viewers {
		e.Must(e.stories.View(t.Context(), id, mayfly.ViewerOf(user(fmt.Sprint("viewer", i))), e.clock()))
	}
	ana := mayfly.ViewerOf(user("ana"))
	seen, cursor, pages := map[mayfly.UserID]bool{}, "", 0
	for {
		count, views, next, err := e.stories.Viewers(t.Context(), id, ana, cursor, 50, e.clock())
		e.Must(err)
		if count != viewers || len(views) > 50 || next != "" && len(views) == 0 {
			t.Fatalf("count %d, a page of %d", count, len(views))
		}
		for _, v := range views {
			if seen[v.User] {
				t.Errorf("%s twice", v.User)
			}
			seen[v.User] = true
		}
		pages++
		if cursor = next; cursor == "" {
			break
		}
	}
	if len(seen) != viewers || pages < viewers/50 {
		t.Errorf("%d viewers in %d pages", len(seen), pages)
	}
	over := id.Birth().Add(48 * time.Hour) // a day after its deadline
	if count, views, _, err := e.stories.Viewers(t.Context(), id, ana, "", 0, over-1); count != viewers || len(views) != 50 || err != nil {
		t.Error(count, len(views), err)
	}
	if count, views, _, err := e.stories.Viewers(t.Context(), id, ana, "", 0, over); count != viewers || len(views) != 0 || err != nil {
		t.Error(count, views, err)
	}
}

// rowsRead counts the rows of a table that ranges return.
func rowsRead(o *settings, of store.Table, hooks *fixture.Hooks) *atomic.Int64 {
	var n atomic.Int64
	hooks.Range = func(_ context.Context, table store.Table, do func() ([]store.Row, error)) ([]store.Row, error) {
		rows, err := do()
		if table == of {
			n.Add(int64(len(rows)))
		}
		return rows, err
	}
	*o.Set = fixture.Hook(*o.Set, hooks)
	return &n
}

func TestTheCountOfViewersReadsNoViews(t *testing.T) {
	var read *atomic.Int64
	e := open(t, func(o *settings) { read = rowsRead(o, story.Views, &fixture.Hooks{}) })
	id := e.publish(e.draft()).Item.ID
	for i := range 300 {
		e.Must(e.stories.View(t.Context(), id, mayfly.ViewerOf(user(fmt.Sprint("viewer", i))), e.clock()))
	}
	read.Store(0)
	count, views, _, err := e.stories.Viewers(t.Context(), id, mayfly.ViewerOf(user("ana")), "", 10, e.clock())
	if count != 300 || len(views) != 10 || err != nil || read.Load() != 10 {
		t.Errorf("%d viewers, %d of them listed, %v: %d views were read", count, len(views), err, read.Load())
	}
}

// A story lives for as long as its author chose; its views end two days after its
// birth, or at its deadline if the operator allows a longer life.
func TestViewsEndTwoDaysAfterTheBirthOrAtTheDeadline(t *testing.T) {
	week := fixture.Lifetime(t, 7*24*time.Hour)
	e := open(t, func(o *settings) { o.Lifetimes = []mayfly.Lifetime{week, fixture.Lifetime(t, 6*time.Hour)} })
	for _, tc := range []struct {
		lifetime mayfly.Lifetime
		end      time.Duration
	}{{week, 7 * 24 * time.Hour}, {fixture.Lifetime(t, 6*time.Hour), 48 * time.Hour}} {
		d := e.draft()
		d.Lifetime = tc.lifetime.String()
		id := e.publish(d).Item.ID
		e.Must(e.stories.View(t.Context(), id, mayfly.ViewerOf(user("ben")), id.Deadline()-1))
		for _, listed := range []int{1, 0} {
			at := id.Birth().Add(tc.end) - mayfly.Instant(listed)
			if count, views, _, err := e.stories.Viewers(t.Context(), id, mayfly.ViewerOf(user("ana")), "", 0, at); count != 1 || len(views) != listed || err != nil {
				t.Errorf("%s: %d, %v, %v", tc.lifetime, count, views, err)
			}
		}
	}
}

func TestARestoredStoryCountsNoViewsAfterTheirEnd(t *testing.T) {
	e := open(t)
	id := e.publish(e.draft()).Item.ID
	e.at(id.Deadline())
	e.sweep(id)
	e.at(id.Birth().Add(47 * time.Hour))
	_, err := e.restore.Item(t.Context(), restore.Request{ID: id, By: audit.Actor{Subject: "support"}, Reason: "a mistake", Until: e.clock().Add(24 * time.Hour)}, e.clock())
	e.Must(err)
	for i, at := range []mayfly.Instant{e.clock(), id.Birth().Add(48 * time.Hour)} {
		e.Must(e.stories.View(t.Context(), id, mayfly.ViewerOf(user(fmt.Sprint("viewer", i))), at))
	}
	if count, _, _, err := e.stories.Viewers(t.Context(), id, mayfly.ViewerOf(user("ana")), "", 0, e.clock()); count != 1 || err != nil {
		t.Error(count, err)
	}
}

func TestOnlyAuthorAndModeratorsSeeWhoHasSeen(t *testing.T) {
	e := open(t)
	id := e.publish(e.draft()).Item.ID
	for _, tc := range []struct {
		name   string
		viewer mayfly.Viewer
		at     mayfly.Instant
		want   error
	}{
		{"follower", mayfly.ViewerOf(user("follower")), e.clock(), mayfly.NotFound},
		{"anonymous", mayfly.Viewer{}, e.clock(), mayfly.NotFound},
		{"follower later", mayfly.ViewerOf(user("follower")), id.Deadline(), mayfly.Gone},
		{"author", mayfly.ViewerOf(user("ana")), e.clock(), nil},
		{"author later", mayfly.ViewerOf(user("ana")), id.Deadline(), nil},
		{"moderator", mayfly.ModeratorOf(user("moderator")), e.clock(), nil},
	} {
		if _, _, _, err := e.stories.Viewers(t.Context(), id, tc.viewer, "", 0, tc.at); err != tc.want {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
	for _, cursor := range []string{"x", "AAAA", "!!", "____________________"} {
		if _, _, _, err := e.stories.Viewers(t.Context(), id, mayfly.ViewerOf(user("ana")), cursor, 0, e.clock()); !errors.Is(err, mayfly.Invalid) {
			t.Errorf("cursor %q: %v", cursor, err)
		}
	}
}
