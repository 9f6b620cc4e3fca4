package story_test

import (
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/hydrate"
	"github.com/mayflyhq/mayfly/product/story"
)

func (e *env) bytesOf(id mayfly.ID, viewer mayfly.Viewer, object hydrate.Object) []byte {
	e.Helper()
	m, err := e.stories.Medium(e.Context(), id, viewer, object, e.clock())
	e.Must(err)
	b, err := io.ReadAll(m)
	e.Must(errors.Join(err, m.Close()))
	return b
}

func TestAResharedStoryHasItsOwnCopyOfTheBytes(t *testing.T) {
	e := open(t)
	ana, ben := mayfly.ViewerOf(user("ana")), mayfly.ViewerOf(user("ben"))
	d := e.draft()
	d.Overlays, d.Media = []byte(`[{"kind":"emoji","text":"x"}]`), media(photo(t, 1), photo(t, 2))
	old := e.publish(d)
	e.at(old.Item.ID.Deadline().Add(2 * time.Hour))
	e.sweep(old.Item.ID)
	e.archive(old.Item.ID)
	caption := "again"
	share := func(key string) (story.Story, error) {
		return e.stories.Reshare(t.Context(), old.Item.ID, user("ana"), story.Change{Caption: &caption, Lifetime: "6h"}, key, e.clock)
	}
	fresh, err := share("once")
	e.Must(err)
	if fresh.Item.ID == old.Item.ID || fresh.Body.Text != "again" || fresh.Item.Audience != mayfly.Everyone || fresh.Item.ID.Lifetime().Duration() != 6*time.Hour ||
		string(fresh.Overlays) != string(old.Overlays) || !slices.Equal(fresh.Body.Media, old.Body.Media) || fresh.Item.Upload == old.Item.Upload {
		t.Errorf("%+v", fresh)
	}
	again, err := share("once")
	e.Must(err)
	if !again.Again || again.Item.ID != fresh.Item.ID {
		t.Errorf("%+v", again)
	}
	want := e.bytesOf(old.Item.ID, ana, hydrate.Object{Medium: 1})
	e.Must(e.stories.Delete(t.Context(), old.Item.ID, user("ana"), e.clock()))
	if got := e.bytesOf(fresh.Item.ID, ben, hydrate.Object{Medium: 1}); !slices.Equal(got, want) {
		t.Error("other bytes")
	}
	if _, err := share(""); err != mayfly.Gone {
		t.Errorf("of a deleted one: %v", err)
	}
}

func TestOnlyTheAuthorResharesAndTheLimitHolds(t *testing.T) {
	e := open(t, func(o *settings) { o.Live = 1 })
	s := e.publish(e.draft())
	if _, err := e.stories.Reshare(t.Context(), s.Item.ID, user("ben"), story.Change{}, "", e.clock); err != mayfly.NotFound {
		t.Error(err)
	}
	if _, err := e.stories.Reshare(t.Context(), s.Item.ID, user("ana"), story.Change{}, "", e.clock); !errors.Is(err, mayfly.Conflict) {
		t.Error(err)
	}
	if n := e.objects(e.Set.Hot); n != 1 {
		t.Errorf("%d objects", n)
	}
	e.at(s.Item.ID.Deadline())
	if _, err := e.stories.Reshare(t.Context(), s.Item.ID, user("ben"), story.Change{}, "", e.clock); err != mayfly.Gone {
		t.Error(err)
	}
	fresh, err := e.stories.Reshare(t.Context(), s.Item.ID, user("ana"), story.Change{Audience: "close_friends"}, "", e.clock)
	e.Must(err)
	if fresh.Item.Audience != mayfly.CloseFriends || fresh.Body.Text != "sea" {
		t.Errorf("%+v", fresh)
	}
}

func TestAMediumIsReadFromAnywhere(t *testing.T) {
	e := open(t)
	id := e.publish(e.draft()).Item.ID
	ben := mayfly.ViewerOf(user("ben"))
	whole := e.bytesOf(id, ben, hydrate.Object{})
	for _, object := range []hydrate.Object{{}, {Longest: 320}, {Longest: 1080}} {
		m, err := e.stories.Medium(t.Context(), id, ben, object, e.clock())
		e.Must(err)
		size, err := m.Seek(0, io.SeekEnd)
		e.Must(err)
		if size != m.Size || m.Type != "image/jpeg" || m.SHA256 == [32]byte{} {
			t.Errorf("%s: %+v", object, m)
		}
		for _, from := range []int64{size / 2, 0, size - 1, size, 3} {
			_, err := m.Seek(from, io.SeekStart)
			e.Must(err)
			rest, err := io.ReadAll(m)
			e.Must(err)
			if int64(len(rest)) != size-from || object.Longest == 0 && !slices.Equal(rest, whole[from:]) {
				t.Errorf("%s from %d: %d bytes", object, from, len(rest))
			}
		}
		if _, err := m.Seek(-1, io.SeekStart); !errors.Is(err, mayfly.Invalid) {
			t.Error(err)
		}
		e.Must(m.Close())
	}
	if _, err := e.stories.Medium(t.Context(), id, ben, hydrate.Object{Medium: 1}, e.clock()); err != mayfly.NotFound {
		t.Error(err)
	}
}

func TestADownloadThatBeganBeforeTheDeadlineMayFinish(t *testing.T) {
	e := open(t)
	id := e.publish(e.draft()).Item.ID
	ben := mayfly.ViewerOf(user("ben"))
	m, err := e.stories.Medium(t.Context(), id, ben, hydrate.Object{}, id.Deadline()-1)
	e.Must(err)
	e.at(id.Deadline())
	e.sweep(id)
	if b, err := io.ReadAll(m); err != nil || int64(len(b)) != m.Size {
		t.Error(len(b), err)
	}
	e.Must(m.Close())
	if _, err := e.stories.Medium(t.Context(), id, ben, hydrate.Object{}, e.clock()); err != mayfly.Gone {
		t.Error(err)
	}
}

func TestAnObjectHasOneSpelling(t *testing.T) {
	for text, want := range map[string]hydrate.Object{"0": {}, "9": {Medium: 9}, "0-320": {Longest: 320}, "3-1080": {Medium: 3, Longest: 1080}} {
		if got, err := hydrate.ParseObject(text); got != want || err != nil || got.String() != text {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "10", "-1", "00", "+1", "0-", "0-0", "0-321", "0-0320", "0-320-", "a", "10-320", "0x1", " 0", "1e0", "../0"} {
		if got, err := hydrate.ParseObject(text); err != mayfly.NotFound {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}
