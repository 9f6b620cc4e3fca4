package story_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/product/story"
	"github.com/mayflyhq/mayfly/store"
)

// listed is every page of an archive.
func (h *house) listed(between story.Between, limit int) (ids []mayfly.ID) {
	h.Helper()
	for cursor := ""; ; {
		page, next, err := h.stories.Archive(h.Context(), user("ana"), between, cursor, limit, h.clock())
		h.must(err)
		for _, s := range page {
			if !s.Archived {
				h.Errorf("%s is not archived", s.Item.ID)
			}
			ids = append(ids, s.Item.ID)
		}
		if cursor = next; cursor == "" {
			return ids
		}
	}
}

func TestTheArchiveListsOwnEndedStoriesNewestFirst(t *testing.T) {
	h := open(t)
	var born []mayfly.ID
	for i := range 12 {
		d := h.draft()
		d.Lifetime = "6h"
		d.Media = media(photo(t, byte(i)))
		born = append(born, h.publish(d).Item.ID)
		h.pass(time.Hour)
	}
	h.at(born[8].Deadline()) // 0…8 have ended, 9…11 live
	h.must(h.stories.Delete(t.Context(), born[1], user("ana"), h.clock()))
	h.must(h.restore.Hold(t.Context(), born[2], "support", "a court says so", h.clock()))
	h.sweep(born[3])
	h.sweep(born[4])
	h.archive(born[3])
	h.bringBack(born[4])
	want := []mayfly.ID{born[8], born[7], born[6], born[5], born[3], born[0]}
	for _, limit := range []int{0, 1, 2, 5, 100} {
		if got := h.listed(story.Between{}, limit); !slices.Equal(got, want) {
			t.Errorf("pages of %d: %v, want %v", limit, got, want)
		}
	}
	between := story.Between{From: born[3].Birth(), To: born[7].Birth()}
	if got := h.listed(between, 2); !slices.Equal(got, []mayfly.ID{born[6], born[5], born[3]}) {
		t.Errorf("between: %v", got)
	}
	page, _, err := h.stories.Archive(t.Context(), user("ana"), between, born[11].Short(), 0, h.clock())
	h.must(err)
	if len(page) != 3 {
		t.Fatalf("a cursor made the range wider: %d", len(page))
	}
	if page[2].Tier().String() != "cold" || page[0].Tier().String() != "hot" {
		t.Errorf("%s, %s", page[2].Tier(), page[0].Tier())
	}
	ring, err := h.stories.Ring(t.Context(), user("ana"), mayfly.ViewerOf(user("ben")), h.clock())
	h.must(err)
	var live []mayfly.ID
	for _, s := range ring {
		live = append(live, s.Item.ID)
	}
	if !slices.Equal(live, []mayfly.ID{born[4], born[9], born[10], born[11]}) {
		t.Errorf("ring %v", live)
	}
	h.at(h.row(born[4]).ServesUntil) // it is in the restored set still
	if ring, err = h.stories.Ring(t.Context(), user("ana"), mayfly.ViewerOf(user("ana")), h.clock()); err != nil || contains(ring, born[4]) {
		t.Errorf("what was restored is in the ring past its time (%v)", err)
	}
	if got := h.listed(story.Between{}, 0); !slices.Contains(got, born[4]) {
		t.Errorf("and not in the archive: %v", got)
	}
	if other, _, err := h.stories.Archive(t.Context(), user("ben"), story.Between{}, "", 0, h.clock()); len(other) != 0 || err != nil {
		t.Error(other, err)
	}
}

func TestABadCursorOfTheArchiveIsInvalid(t *testing.T) {
	h := open(t)
	for _, cursor := range []string{"x", "ffffffff-ffff-ffff-ffff-ffffffffffff", "0000000000000000000000"} {
		if _, _, err := h.stories.Archive(t.Context(), user("ana"), story.Between{}, cursor, 0, h.clock()); !errors.Is(err, mayfly.Invalid) {
			t.Errorf("%q: %v", cursor, err)
		}
	}
	if _, _, err := h.stories.Archive(t.Context(), mayfly.UserID{}, story.Between{}, "", 0, h.clock()); !errors.Is(err, mayfly.Unauthenticated) {
		t.Error(err)
	}
}

// A page looks at a bounded part of the index, and the next goes on from there.
func TestAnArchiveBehindManyLiveStoriesComesInShortPages(t *testing.T) {
	h := open(t)
	d := h.draft()
	d.Lifetime = "6h"
	old := h.publish(d).Item.ID
	h.pass(time.Hour)
	var b store.Batch
	for i := range uint64(2_500) { // entries of births that were abandoned
		id, err := mayfly.NewID(h.clock(), mustLifetime(t, "48h"), user("ana").Trace(), i)
		h.must(err)
		b.Put(store.Owners, store.OwnerKey(user("ana"), id), []byte{byte(mayfly.Story)}, 0)
	}
	h.must(h.set.Writer.Commit(t.Context(), &b))
	h.at(old.Deadline())
	page, next, err := h.stories.Archive(t.Context(), user("ana"), story.Between{}, "", 7, h.clock())
	if len(page) != 0 || next == "" || err != nil {
		t.Errorf("%d stories, next %q, %v", len(page), next, err)
	}
	if got := h.listed(story.Between{}, 7); !slices.Equal(got, []mayfly.ID{old}) {
		t.Errorf("%v", got)
	}
}

func mustLifetime(t *testing.T, text string) mayfly.Lifetime {
	t.Helper()
	l, err := mayfly.ParseLifetime(text)
	if err != nil {
		t.Fatal(err)
	}
	return l
}
