package story_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/product/story"
	"github.com/mayflyhq/mayfly/store"
)

// listed is every page of an archive.
func (e *env) listed(between story.Between, limit int) (ids []mayfly.ID) {
	e.Helper()
	for cursor := ""; ; {
		page, next, err := e.stories.Archive(e.Context(), user("ana"), between, cursor, limit, e.clock())
		e.Must(err)
		for _, s := range page {
			if !s.Archived {
				e.Errorf("%s is not archived", s.Item.ID)
			}
			ids = append(ids, s.Item.ID)
		}
		if cursor = next; cursor == "" {
			return ids
		}
	}
}

func TestTheArchiveListsOwnEndedStoriesNewestFirst(t *testing.T) {
	e := open(t)
	var born []mayfly.ID
	for i := range 12 {
		d := e.draft()
		d.Lifetime = "6h"
		d.Media = media(photo(t, byte(i)))
		born = append(born, e.publish(d).Item.ID)
		e.pass(time.Hour)
	}
	e.at(born[8].Deadline()) // 0…8 have ended, 9…11 live
	e.Must(e.stories.Delete(t.Context(), born[1], user("ana"), e.clock()))
	e.Must(e.restore.Hold(t.Context(), born[2], audit.Actor{Subject: "support"}, "a court says so", e.clock()))
	e.sweep(born[3])
	e.sweep(born[4])
	e.archive(born[3])
	e.bringBack(born[4])
	want := []mayfly.ID{born[8], born[7], born[6], born[5], born[3], born[0]}
	for _, limit := range []int{0, 1, 2, 5, 100} {
		if got := e.listed(story.Between{}, limit); !slices.Equal(got, want) {
			t.Errorf("pages of %d: %v, want %v", limit, got, want)
		}
	}
	between := story.Between{From: born[3].Birth(), To: born[7].Birth()}
	if got := e.listed(between, 2); !slices.Equal(got, []mayfly.ID{born[6], born[5], born[3]}) {
		t.Errorf("between: %v", got)
	}
	page, _, err := e.stories.Archive(t.Context(), user("ana"), between, born[11].Short(), 0, e.clock())
	e.Must(err)
	if len(page) != 3 {
		t.Fatalf("a cursor made the range wider: %d", len(page))
	}
	if page[2].Tier().String() != "cold" || page[0].Tier().String() != "hot" {
		t.Errorf("%s, %s", page[2].Tier(), page[0].Tier())
	}
	ring, err := e.stories.Ring(t.Context(), user("ana"), mayfly.ViewerOf(user("ben")), e.clock())
	e.Must(err)
	var live []mayfly.ID
	for _, s := range ring {
		live = append(live, s.Item.ID)
	}
	if !slices.Equal(live, []mayfly.ID{born[4], born[9], born[10], born[11]}) {
		t.Errorf("ring %v", live)
	}
	e.at(e.Row(born[4]).ServesUntil) // it is in the restored set still
	if ring, err = e.stories.Ring(t.Context(), user("ana"), mayfly.ViewerOf(user("ana")), e.clock()); err != nil || contains(ring, born[4]) {
		t.Errorf("what was restored is in the ring past its time (%v)", err)
	}
	if got := e.listed(story.Between{}, 0); !slices.Contains(got, born[4]) {
		t.Errorf("and not in the archive: %v", got)
	}
	if other, _, err := e.stories.Archive(t.Context(), user("ben"), story.Between{}, "", 0, e.clock()); len(other) != 0 || err != nil {
		t.Error(other, err)
	}
}

func TestABadCursorOfTheArchiveIsInvalid(t *testing.T) {
	e := open(t)
	for _, cursor := range []string{"x", "ffffffff-ffff-ffff-ffff-ffffffffffff", "0000000000000000000000"} {
		if _, _, err := e.stories.Archive(t.Context(), user("ana"), story.Between{}, cursor, 0, e.clock()); !errors.Is(err, mayfly.Invalid) {
			t.Errorf("%q: %v", cursor, err)
		}
	}
	if _, _, err := e.stories.Archive(t.Context(), mayfly.UserID{}, story.Between{}, "", 0, e.clock()); !errors.Is(err, mayfly.Unauthenticated) {
		t.Error(err)
	}
}

// A page looks at a bounded part of the index, and the next goes on from there.
func TestAnArchiveBehindManyLiveStoriesComesInShortPages(t *testing.T) {
	e := open(t)
	d := e.draft()
	d.Lifetime = "6h"
	old := e.publish(d).Item.ID
	e.pass(time.Hour)
	var b store.Batch
	for i := range uint64(2_500) { // entries of births that were abandoned
		id, err := mayfly.NewID(e.clock(), mustLifetime(t, "48h"), user("ana").Trace(), i)
		e.Must(err)
		b.Put(engine.Owners, engine.OwnerKey(user("ana"), id), []byte{byte(mayfly.Story)}, 0)
	}
	e.Must(e.Set.Writer.Commit(t.Context(), &b))
	e.at(old.Deadline())
	page, next, err := e.stories.Archive(t.Context(), user("ana"), story.Between{}, "", 7, e.clock())
	if len(page) != 0 || next == "" || err != nil {
		t.Errorf("%d stories, next %q, %v", len(page), next, err)
	}
	if got := e.listed(story.Between{}, 7); !slices.Equal(got, []mayfly.ID{old}) {
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
