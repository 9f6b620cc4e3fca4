package story_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/product/story"
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
	over := id.Deadline().Add(48 * time.Hour)
	if count, _, _, err := e.stories.Viewers(t.Context(), id, ana, "", 0, over-1); count != viewers || err != nil {
		t.Error(count, err)
	}
	if count, views, _, err := e.stories.Viewers(t.Context(), id, ana, "", 0, over); count != 0 || len(views) != 0 || err != nil {
		t.Error(count, views, err)
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
