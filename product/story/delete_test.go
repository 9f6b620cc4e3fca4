package story_test

import (
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/walk"
)

func TestAStoryThatItsAuthorDeletesIsGoneFromEveryRouteAndDeletingAgainIsNoError(t *testing.T) {
	e := open(t)
	id := e.publish(e.draft()).Item.ID
	for _, who := range []string{"ben", "follower"} {
		if err := e.stories.Delete(t.Context(), id, user(who), e.clock()); err != mayfly.NotFound {
			t.Errorf("%s: %v", who, err)
		}
	}
	if err := e.stories.Delete(t.Context(), id, mayfly.UserID{}, e.clock()); err != mayfly.NotFound {
		t.Error(err)
	}
	e.Must(e.stories.Delete(t.Context(), id, user("ana"), e.clock()))
	e.Must(e.stories.Delete(t.Context(), id, user("ana"), e.clock()))
	if err := e.stories.Delete(t.Context(), id, user("ben"), e.clock()); err != mayfly.NotFound {
		t.Error(err)
	}
	for _, who := range cast() {
		for _, route := range routes() {
			if saw, _ := route.see(t.Context(), e, id, who.viewer, e.clock()); saw {
				t.Errorf("%s by %s", route.name, who.name)
			}
		}
	}
	_, err := e.erase.Act(t.Context(), walk.Batch{Items: []mayfly.Item{e.Row(id)}, Now: e.clock()})
	e.Must(err)
	if n := e.objects(e.Set.Hot); n != 0 {
		t.Errorf("%d objects are left", n)
	}
	// The answer does not show whether the bytes are erased yet.
	e.Must(e.stories.Delete(t.Context(), id, user("ana"), e.clock()))
	e.Must(e.stories.Delete(t.Context(), id, user("ana"), id.Deadline()))
	if err := e.stories.Delete(t.Context(), id, user("ben"), e.clock()); err != mayfly.NotFound {
		t.Error(err)
	}
	e.at(id.Deadline().Add(40 * 24 * time.Hour))
	_, err = e.erase.TidyAct(t.Context(), walk.Batch{Items: []mayfly.Item{e.Row(id)}, Now: e.clock()})
	e.Must(err)
	if err := e.stories.Delete(t.Context(), id, user("ana"), e.clock()); err != mayfly.Gone {
		t.Errorf("when it is forgotten: %v", err)
	}
}

func TestAnArchivedStoryIsDeletedAndAHeldOneIsNotThereForItsAuthor(t *testing.T) {
	e := open(t)
	cold, held := e.publish(e.draft()).Item.ID, e.publish(e.draft()).Item.ID
	e.at(cold.Deadline().Add(2 * time.Hour))
	e.sweep(cold)
	e.archive(cold)
	e.Must(e.stories.Delete(t.Context(), cold, user("ana"), e.clock()))
	if e.Row(cold).State != mayfly.Deleted {
		t.Error(e.Row(cold).State)
	}
	e.Must(e.restore.Hold(t.Context(), held, audit.Actor{Subject: "support"}, "a court says so", e.clock()))
	if err := e.stories.Delete(t.Context(), held, user("ana"), e.clock()); err != mayfly.Gone || e.Row(held).State == mayfly.Deleted {
		t.Errorf("%v, %s", err, e.Row(held).State)
	}
	_, err := e.erase.Delete(t.Context(), held, mayfly.ByUser, e.clock()) // the hold came between the check and the delete
	e.Must(err)
	if err := e.stories.Delete(t.Context(), held, user("ana"), e.clock()); err != mayfly.Gone {
		t.Errorf("deleted and held: %v", err)
	}
}
