package story_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/product/story"
	"github.com/mayflyhq/mayfly/store"
)

// openPresigned is a house whose storage has presigned URLs.
func openPresigned(t testing.TB, change ...func(*story.Options)) (h *house, hot *storage) {
	t.Helper()
	h = openOn(t, func(set *store.Set) {
		hot = &storage{Blobs: set.Hot, name: "hot"}
		set.Hot, set.Cold = hot, &storage{Blobs: set.Cold, name: "cold"}
	}, change...)
	return h, hot
}

// reads are the presigned URLs of a story as viewer is shown it now, for a minute
// at most.
func (h *house) reads(id mayfly.ID, viewer mayfly.Viewer) story.ReadURLs {
	h.Helper()
	s, err := h.stories.Open(h.Context(), id, viewer, h.clock())
	h.must(err)
	urls, err := h.stories.PresignReads(h.Context(), []story.Story{s}, viewer, time.Minute, h.clock)
	h.must(err)
	return urls[0]
}

func TestAPresignedURLLastsWholeSecondsAMinuteAtMostAndNotPastTheDeadline(t *testing.T) {
	h, _ := openPresigned(t)
	h.pass(123 * time.Millisecond) // deadlines lie anywhere in a second
	s := h.publish(h.draft())
	deadline := s.Item.ID.Deadline()
	for _, c := range []struct {
		left, want time.Duration // 0: our own route
	}{
		{24 * time.Hour, time.Minute},
		{61 * time.Second, time.Minute},
		{60 * time.Second, time.Minute},
		{60*time.Second - time.Millisecond, 59 * time.Second},
		{1500 * time.Millisecond, time.Second},
		{time.Second, time.Second},
		{999 * time.Millisecond, 0},
		{900 * time.Millisecond, 0},
		{time.Millisecond, 0},
	} {
		h.at(deadline.Add(-c.left))
		for _, viewer := range []mayfly.Viewer{{}, mayfly.ViewerOf(user("ben")), mayfly.ViewerOf(user("ana"))} {
			got := h.reads(s.Item.ID, viewer)
			if c.want == 0 {
				if len(got.URLs) != 0 {
					t.Errorf("%s before the deadline: %v", c.left, got)
				}
				continue
			}
			want := fmt.Sprintf("GET hot %s %s", mayfly.UploadKey(s.Item.Upload, 0), c.want)
			if got.URLs[story.Object{}] != want {
				t.Errorf("%s before the deadline: %q, not %q", c.left, got.URLs[story.Object{}], want)
			}
			if now := h.clock(); got.Until > deadline || got.Until > now.Add(c.want) || got.Until <= now.Add(c.want-time.Second) {
				t.Errorf("%s before the deadline: good until %s, now %s", c.left, got.Until, now)
			}
		}
	}
	h.at(deadline)
	if got := h.reads(s.Item.ID, mayfly.ViewerOf(user("ana"))); len(got.URLs) != 0 {
		t.Errorf("past the deadline, still hot: %v", got)
	}
}

func TestOnlyWhatEveryoneMaySeeIsPresignedWhileItServes(t *testing.T) {
	h, hot := openPresigned(t)
	h.relate(user("ana"), user("ben"), mayfly.Follower|mayfly.CloseFriend)
	for _, audience := range []string{"followers", "close_friends"} {
		d := h.draft()
		d.Audience = audience
		s := h.publish(d)
		for _, viewer := range []mayfly.Viewer{mayfly.ViewerOf(user("ben")), mayfly.ViewerOf(user("ana")), mayfly.ModeratorOf(mayfly.UserID{})} {
			if got := h.reads(s.Item.ID, viewer); len(got.URLs) != 0 {
				t.Errorf("%s: %v", audience, got)
			}
		}
	}
	if len(hot.signed) != 0 {
		t.Errorf("URLs were made: %v", hot.signed)
	}
}

func TestWhatHasEndedIsPresignedFromColdForItsAuthorAlone(t *testing.T) {
	h, _ := openPresigned(t)
	for _, audience := range []string{"everyone", "close_friends"} {
		d := h.draft()
		d.Audience = audience
		s := h.publish(d)
		h.at(s.Item.ID.Deadline())
		h.sweep(s.Item.ID)
		h.pass(2 * time.Hour)
		if got := h.reads(s.Item.ID, mayfly.ViewerOf(user("ana"))); len(got.URLs) != 0 {
			t.Errorf("still hot: %v", got)
		}
		h.archive(s.Item.ID)
		row := h.row(s.Item.ID)
		got := h.reads(s.Item.ID, mayfly.ViewerOf(user("ana")))
		if want := fmt.Sprintf("GET cold %s 1m0s", row.MediaKey(row.Keys.Cold, 0)); got.URLs[story.Object{}] != want {
			t.Errorf("cold: %v, not %q", got, want)
		}
		if got := h.reads(s.Item.ID, mayfly.ModeratorOf(mayfly.UserID{})); len(got.URLs) != 0 {
			t.Errorf("for a moderator: %v", got)
		}
	}
}

func TestWhatIsHeldIsNotPresigned(t *testing.T) {
	h, _ := openPresigned(t)
	live, old := h.publish(h.draft()), h.publish(h.draft())
	h.must(h.restore.Hold(t.Context(), live.Item.ID, "support", "a court asks", h.clock()))
	if got := h.reads(live.Item.ID, mayfly.ModeratorOf(mayfly.UserID{})); len(got.URLs) != 0 {
		t.Errorf("live: %v", got)
	}
	h.at(old.Item.ID.Deadline())
	h.sweep(old.Item.ID)
	h.pass(2 * time.Hour)
	h.archive(old.Item.ID)
	ana := mayfly.ViewerOf(user("ana"))
	shown, err := h.stories.Open(t.Context(), old.Item.ID, ana, h.clock())
	h.must(err)
	shown.Item.Held = true
	urls, err := h.stories.PresignReads(t.Context(), []story.Story{shown}, ana, time.Minute, h.clock)
	if err != nil || len(urls[0].URLs) != 0 {
		t.Errorf("cold: %v, %v", urls, err)
	}
}

func TestSigningThatTakesAWhileMakesNoURLPastTheDeadline(t *testing.T) {
	h, hot := openPresigned(t)
	s := h.publish(h.draft())
	for _, c := range []struct {
		left, takes time.Duration
		want        bool
	}{
		{30 * time.Second, time.Millisecond, false}, // signed a millisecond later it would last a millisecond too long
		{30500 * time.Millisecond, 100 * time.Millisecond, true},
		{2 * time.Minute, time.Second, true},
	} {
		h.at(s.Item.ID.Deadline().Add(-c.left))
		slow := true
		hot.signing = func() {
			if slow {
				h.pass(c.takes)
			}
			slow = false
		}
		if got := h.reads(s.Item.ID, mayfly.Viewer{}); got.URLs[story.Object{}] != "" != c.want {
			t.Errorf("%s before the deadline, in %s: %v", c.left, c.takes, got)
		}
	}
}

func TestWithoutPresignedURLsThereAreNone(t *testing.T) {
	h := open(t)
	s := h.publish(h.draft())
	if got := h.reads(s.Item.ID, mayfly.Viewer{}); len(got.URLs) != 0 {
		t.Errorf("%v", got)
	}
	puts, err := h.stories.PresignPuts(t.Context(), h.reserve(2), h.clock())
	if err != nil || len(puts) != 2 || puts[0].URL != "" || puts[1].URL != "" {
		t.Errorf("%v, %v", puts, err)
	}
}

func TestAReservationOffersPresignedURLsForWhatHasNotArrived(t *testing.T) {
	h, _ := openPresigned(t)
	r := h.reserve(3)
	h.must(h.put(r.Upload, 1, photo(t, 1)))
	r, err := h.stories.Reservation(t.Context(), user("ana"), r.Upload, h.clock())
	h.must(err)
	puts, err := h.stories.PresignPuts(t.Context(), r, h.clock())
	h.must(err)
	for n, p := range puts {
		want := story.PutURL{}
		if n != 1 {
			want = story.PutURL{URL: fmt.Sprintf("PUT hot %s 15m0s", mayfly.RawKey(r.Upload, n)), Until: h.clock().Add(15 * time.Minute), Most: 64 << 20}
		}
		if p != want {
			t.Errorf("medium %d: %+v, not %+v", n, p, want)
		}
	}
}
