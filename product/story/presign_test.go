package story_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/hydrate"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/product/story"
)

// openPresigned opens stories on storage that has presigned URLs.
func openPresigned(t testing.TB, change ...func(*settings)) (e *env, hot *storage) {
	t.Helper()
	e = open(t, append(change, func(o *settings) {
		hot = &storage{Blobs: o.Set.Hot, name: "hot"}
		o.Set.Hot, o.Set.Cold = hot, &storage{Blobs: o.Set.Cold, name: "cold"}
	})...)
	return e, hot
}

// reads are the presigned URLs of a story as viewer is shown it now, for a minute
// at most.
func (e *env) reads(id mayfly.ID, viewer mayfly.Viewer) story.ReadURLs {
	e.Helper()
	s, err := e.stories.Open(e.Context(), id, viewer, e.clock())
	e.Must(err)
	urls, err := e.stories.PresignReads(e.Context(), []story.Story{s}, viewer, time.Minute, e.clock)
	e.Must(err)
	return urls[0]
}

func TestAPresignedURLLastsWholeSecondsAMinuteAtMostAndNotPastTheDeadline(t *testing.T) {
	e, _ := openPresigned(t)
	e.pass(123 * time.Millisecond) // deadlines lie anywhere in a second
	s := e.publish(e.draft())
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
		e.at(deadline.Add(-c.left))
		for _, viewer := range []mayfly.Viewer{{}, mayfly.ViewerOf(user("ben")), mayfly.ViewerOf(user("ana"))} {
			got := e.reads(s.Item.ID, viewer)
			if c.want == 0 {
				if len(got.URLs) != 0 {
					t.Errorf("%s before the deadline: %v", c.left, got)
				}
				continue
			}
			want := fmt.Sprintf("GET hot %s %s", mayfly.UploadKey(s.Item.Upload, 0), c.want)
			if got.URLs[hydrate.Object{}] != want {
				t.Errorf("%s before the deadline: %q, not %q", c.left, got.URLs[hydrate.Object{}], want)
			}
			if now := e.clock(); got.Until > deadline || got.Until > now.Add(c.want) || got.Until <= now.Add(c.want-time.Second) {
				t.Errorf("%s before the deadline: good until %s, now %s", c.left, got.Until, now)
			}
		}
	}
	e.at(deadline)
	if got := e.reads(s.Item.ID, mayfly.ViewerOf(user("ana"))); len(got.URLs) != 0 {
		t.Errorf("past the deadline, still hot: %v", got)
	}
}

func TestOnlyWhatEveryoneMaySeeIsPresignedWhileItServes(t *testing.T) {
	e, hot := openPresigned(t)
	e.relate(user("ana"), user("ben"), mayfly.Follower|mayfly.CloseFriend)
	for _, audience := range []string{"followers", "close_friends"} {
		d := e.draft()
		d.Audience = audience
		s := e.publish(d)
		for _, viewer := range []mayfly.Viewer{mayfly.ViewerOf(user("ben")), mayfly.ViewerOf(user("ana")), mayfly.ModeratorOf(mayfly.UserID{})} {
			if got := e.reads(s.Item.ID, viewer); len(got.URLs) != 0 {
				t.Errorf("%s: %v", audience, got)
			}
		}
	}
	if len(hot.signed) != 0 {
		t.Errorf("URLs were made: %v", hot.signed)
	}
}

func TestWhatHasEndedIsPresignedFromColdForItsAuthorAlone(t *testing.T) {
	e, _ := openPresigned(t)
	for _, audience := range []string{"everyone", "close_friends"} {
		d := e.draft()
		d.Audience = audience
		s := e.publish(d)
		e.at(s.Item.ID.Deadline())
		e.sweep(s.Item.ID)
		e.pass(2 * time.Hour)
		if got := e.reads(s.Item.ID, mayfly.ViewerOf(user("ana"))); len(got.URLs) != 0 {
			t.Errorf("still hot: %v", got)
		}
		e.archive(s.Item.ID)
		row := e.Row(s.Item.ID)
		got := e.reads(s.Item.ID, mayfly.ViewerOf(user("ana")))
		if want := fmt.Sprintf("GET cold %s 1m0s", row.MediaKey(row.Keys.Cold, 0)); got.URLs[hydrate.Object{}] != want {
			t.Errorf("cold: %v, not %q", got, want)
		}
		if got := e.reads(s.Item.ID, mayfly.ModeratorOf(mayfly.UserID{})); len(got.URLs) != 0 {
			t.Errorf("for a moderator: %v", got)
		}
	}
}

func TestWhatIsHeldIsNotPresigned(t *testing.T) {
	e, _ := openPresigned(t)
	live, old := e.publish(e.draft()), e.publish(e.draft())
	e.Must(e.restore.Hold(t.Context(), live.Item.ID, audit.Actor{Subject: "support"}, "a court asks", e.clock()))
	if got := e.reads(live.Item.ID, mayfly.ModeratorOf(mayfly.UserID{})); len(got.URLs) != 0 {
		t.Errorf("live: %v", got)
	}
	e.at(old.Item.ID.Deadline())
	e.sweep(old.Item.ID)
	e.pass(2 * time.Hour)
	e.archive(old.Item.ID)
	ana := mayfly.ViewerOf(user("ana"))
	shown, err := e.stories.Open(t.Context(), old.Item.ID, ana, e.clock())
	e.Must(err)
	shown.Item.Held = true
	urls, err := e.stories.PresignReads(t.Context(), []story.Story{shown}, ana, time.Minute, e.clock)
	if err != nil || len(urls[0].URLs) != 0 {
		t.Errorf("cold: %v, %v", urls, err)
	}
}

func TestSigningThatTakesAWhileMakesNoURLPastTheDeadline(t *testing.T) {
	e, hot := openPresigned(t)
	s := e.publish(e.draft())
	for _, c := range []struct {
		left, takes time.Duration
		want        bool
	}{
		{30 * time.Second, time.Millisecond, false}, // signed a millisecond later it would last a millisecond too long
		{30500 * time.Millisecond, 100 * time.Millisecond, true},
		{2 * time.Minute, time.Second, true},
	} {
		e.at(s.Item.ID.Deadline().Add(-c.left))
		slow := true
		hot.signing = func() {
			if slow {
				e.pass(c.takes)
			}
			slow = false
		}
		if got := e.reads(s.Item.ID, mayfly.Viewer{}); got.URLs[hydrate.Object{}] != "" != c.want {
			t.Errorf("%s before the deadline, in %s: %v", c.left, c.takes, got)
		}
	}
}

func TestWithoutPresignedURLsThereAreNone(t *testing.T) {
	e := open(t)
	s := e.publish(e.draft())
	if got := e.reads(s.Item.ID, mayfly.Viewer{}); len(got.URLs) != 0 {
		t.Errorf("%v", got)
	}
	puts, err := e.uploads.PresignPuts(t.Context(), user("ana"), e.reserve(2), e.clock())
	if err != nil || len(puts) != 2 || puts[0].URL != "" || puts[1].URL != "" {
		t.Errorf("%v, %v", puts, err)
	}
}

func TestAReservationOffersPresignedURLsForWhatHasNotArrived(t *testing.T) {
	e, _ := openPresigned(t)
	r := e.reserve(3)
	e.Must(e.put(r.Upload, 1, photo(t, 1)))
	r, err := e.uploads.Reservation(t.Context(), user("ana"), r.Upload, e.clock())
	e.Must(err)
	puts, err := e.uploads.PresignPuts(t.Context(), user("ana"), r, e.clock())
	e.Must(err)
	for n, p := range puts {
		want := upload.PutURL{}
		if n != 1 {
			want = upload.PutURL{URL: fmt.Sprintf("PUT hot %s 4096 bytes 15m0s", mayfly.RawKey(r.Upload, n)), Until: e.clock().Add(15*time.Minute) / 1000 * 1000}
		}
		if p != want {
			t.Errorf("medium %d: %+v, not %+v", n, p, want)
		}
	}
}
