package story_test

import (
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/walk"
)

func TestAStoryThatItsAuthorDeletesIsGoneFromEveryDoorAndDeletingAgainIsNoError(t *testing.T) {
	h := open(t)
	id := h.publish(h.draft()).Item.ID
	for _, who := range []string{"ben", "follower"} {
		if err := h.stories.Delete(t.Context(), id, user(who), h.clock()); err != mayfly.NotFound {
			t.Errorf("%s: %v", who, err)
		}
	}
	if err := h.stories.Delete(t.Context(), id, mayfly.UserID{}, h.clock()); err != mayfly.NotFound {
		t.Error(err)
	}
	h.must(h.stories.Delete(t.Context(), id, user("ana"), h.clock()))
	h.must(h.stories.Delete(t.Context(), id, user("ana"), h.clock()))
	if err := h.stories.Delete(t.Context(), id, user("ben"), h.clock()); err != mayfly.NotFound {
		t.Error(err)
	}
	for _, e := range cast() {
		for _, door := range doors() {
			if saw, _ := door.see(t.Context(), h, id, e.viewer, h.clock()); saw {
				t.Errorf("%s by %s", door.name, e.name)
			}
		}
	}
	_, err := h.erase.Act(t.Context(), walk.Batch{Items: []mayfly.Item{h.row(id)}, Now: h.clock()})
	h.must(err)
	if n := h.objects(h.set.Hot); n != 0 {
		t.Errorf("%d objects are left", n)
	}
	// Whether a loop has come by yet is nobody's to see.
	h.must(h.stories.Delete(t.Context(), id, user("ana"), h.clock()))
	h.must(h.stories.Delete(t.Context(), id, user("ana"), id.Deadline()))
	if err := h.stories.Delete(t.Context(), id, user("ben"), h.clock()); err != mayfly.NotFound {
		t.Error(err)
	}
	h.at(id.Deadline().Add(40 * 24 * time.Hour))
	_, err = h.erase.TidyAct(t.Context(), walk.Batch{Items: []mayfly.Item{h.row(id)}, Now: h.clock()})
	h.must(err)
	if err := h.stories.Delete(t.Context(), id, user("ana"), h.clock()); err != mayfly.Gone {
		t.Errorf("when it is forgotten: %v", err)
	}
}

func TestAnArchivedStoryIsDeletedAndAHeldOneIsNotThereForItsAuthor(t *testing.T) {
	h := open(t)
	cold, held := h.publish(h.draft()).Item.ID, h.publish(h.draft()).Item.ID
	h.at(cold.Deadline().Add(2 * time.Hour))
	h.sweep(cold)
	h.archive(cold)
	h.must(h.stories.Delete(t.Context(), cold, user("ana"), h.clock()))
	if h.row(cold).State != mayfly.Deleted {
		t.Error(h.row(cold).State)
	}
	h.must(h.restore.Hold(t.Context(), held, "support", "a court says so", h.clock()))
	if err := h.stories.Delete(t.Context(), held, user("ana"), h.clock()); err != mayfly.Gone || h.row(held).State == mayfly.Deleted {
		t.Errorf("%v, %s", err, h.row(held).State)
	}
	_, err := h.erase.Delete(t.Context(), held, mayfly.ByUser, h.clock()) // the hold came between the look and the deed
	h.must(err)
	if err := h.stories.Delete(t.Context(), held, user("ana"), h.clock()); err != mayfly.Gone {
		t.Errorf("deleted and held: %v", err)
	}
}
