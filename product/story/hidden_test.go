package story_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/fixture"
)

// hiddenStories is how many stories an author has whose ring is empty for Ben.
const hiddenStories = 100

// hidden makes authors with many stories of which Ben sees none, one for each reason.
func hidden(e *env) map[string]mayfly.UserID {
	ben, authors := user("ben"), map[string]mayfly.UserID{"never was": user("no one")}
	add := func(reason string, audience mayfly.Audience, end func(mayfly.ID)) {
		author := user(reason)
		authors[reason] = author
		for range hiddenStories {
			d := e.Draft()
			d.Owner, d.Audience, d.Lifetime = author, audience, fixture.Lifetime(e, 24*time.Hour)
			if item := e.Publish(d, e.clock()); end != nil {
				end(item.ID)
			}
		}
	}
	add("blocked", mayfly.Everyone, nil)
	e.relate(user("blocked"), ben, mayfly.Blocked|mayfly.Follower|mayfly.CloseFriend)
	add("not a follower", mayfly.Followers, nil)
	e.relate(user("not a follower"), ben, mayfly.CloseFriend)
	add("not a close friend", mayfly.CloseFriends, nil)
	e.relate(user("not a close friend"), ben, mayfly.Follower)
	add("only for the author", mayfly.OnlyAuthor, nil)
	add("held", mayfly.Everyone, func(id mayfly.ID) {
		e.Must(e.restore.Hold(e.Context(), id, audit.Actor{Subject: "eve"}, "case 9", e.clock()))
	})
	add("deleted", mayfly.Everyone, func(id mayfly.ID) { e.Must(e.stories.Delete(e.Context(), id, user("deleted"), e.clock())) })
	return authors
}

// An empty ring must not tell whether the author has stories: it costs the same reads,
// of the same number of rows, whatever it hides (I18).
func TestAnEmptyRingCostsTheSameReadsWhateverItHides(t *testing.T) {
	for name, rows := range map[string]int{"cold": -1, "warm": 0} {
		e := open(t, func(o *settings) { o.CacheRows = rows })
		authors := hidden(e)
		e.emptyRing(user("first"), mayfly.Viewer{}) // the gate reads the restored ids once for all
		r, returned := countReads(e), 0
		e.Hooks.Range = func(_ context.Context, t store.Table, do func() ([]store.Row, error)) ([]store.Row, error) {
			r.add("range " + t.String())
			found, err := do()
			returned += len(found)
			return found, err
		}
		for round := range 3 {
			seen := map[string][]string{}
			for reason, author := range authors {
				returned = 0
				e.related.Store(0)
				cost := r.of(func() { e.emptyRing(author, mayfly.ViewerOf(user("ben"))) })
				text := fmt.Sprint(cost, " ", returned, " rows, ", e.related.Load(), " relations")
				seen[text] = append(seen[text], reason)
			}
			if len(seen) != 1 {
				t.Errorf("%s, round %d: %v", name, round, seen)
			}
		}
		t.Logf("%s: %d reasons compared, %d hidden stories each", name, len(authors), hiddenStories)
	}
}

func (e *env) emptyRing(author mayfly.UserID, viewer mayfly.Viewer) {
	e.Helper()
	if ring, err := e.stories.Ring(e.Context(), author, viewer, e.clock()); err != nil || len(ring) != 0 {
		e.Fatalf("%d stories, %v", len(ring), err)
	}
}

func TestAHeldStoryIsInTheRingAgainOnceItIsReleased(t *testing.T) {
	e := open(t)
	s, ben := e.publish(e.draft()), mayfly.ViewerOf(user("ben"))
	e.Must(e.restore.Hold(t.Context(), s.Item.ID, audit.Actor{Subject: "eve"}, "case 9", e.clock()))
	e.emptyRing(s.Item.Owner, ben)
	e.Must(e.restore.Release(t.Context(), s.Item.ID, audit.Actor{Subject: "eve"}, "case 9", e.clock()))
	for range 2 {
		if ring, err := e.stories.Ring(t.Context(), s.Item.Owner, ben, e.clock()); err != nil || len(ring) != 1 {
			t.Fatalf("%d stories, %v", len(ring), err)
		}
		// The index entry that a hold removes late is written again by the release's reminder.
		var late store.Batch
		engine.LeaveRings(&late, s.Item)
		e.Must(e.Set.Writer.Commit(t.Context(), &late))
		_, err := e.restore.Clean(t.Context(), walk.Batch{Items: []mayfly.Item{s.Item}, Now: e.clock()})
		e.Must(err)
	}
}
