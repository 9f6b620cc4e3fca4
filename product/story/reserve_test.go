package story_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/product/story"
	"github.com/mayflyhq/mayfly/test/fixture"
)

func (e *env) reserve(media int) upload.Reservation {
	e.Helper()
	r, err := e.stories.Reserve(e.Context(), user("ana"), fixture.Expect(media), e.clock())
	e.Must(err)
	return r
}

func (e *env) put(upload mayfly.ID, n int, b []byte) error {
	_, err := e.uploads.Put(e.Context(), user("ana"), upload, n, bytes.NewReader(fixture.Padded(b)), e.clock())
	return err
}

func TestAReservedUploadIsPublishedOnceWhenAllItsMediaHaveArrived(t *testing.T) {
	e := open(t)
	r := e.reserve(2)
	if len(r.Media) != 2 || r.Deadline != e.clock().Add(24*time.Hour) {
		t.Errorf("%+v", r)
	}
	d := story.Draft{Author: user("ana"), Caption: "sea", Upload: r.Upload}
	e.Must(e.put(r.Upload, 1, photo(t, 1)))
	if _, err := e.stories.Publish(t.Context(), d, e.clock); !errors.Is(err, mayfly.Conflict) || !strings.Contains(err.Error(), "has not arrived") {
		t.Errorf("too early: %v", err)
	}
	if err := e.put(r.Upload, 1, photo(t, 2)); !errors.Is(err, mayfly.Conflict) {
		t.Errorf("twice: %v", err)
	}
	e.Must(e.put(r.Upload, 0, photo(t, 0)))
	seen, err := e.uploads.Reservation(t.Context(), user("ana"), r.Upload, e.clock())
	e.Must(err)
	if !seen.Media[0].Done || !seen.Media[1].Done || seen.Media[0].Medium.Type != "image/jpeg" || seen.Media[0].Medium.Width != 64 {
		t.Errorf("%+v", seen)
	}
	first := e.publish(d)
	if first.Item.Upload != r.Upload || len(first.Body.Media) != 2 || first.Body.Media[1] != seen.Media[1].Medium {
		t.Errorf("%+v", first)
	}
	if again := e.publish(d); !again.Again || again.Item.ID != first.Item.ID {
		t.Errorf("again: %+v", again)
	}
	d.Key = "another"
	if _, err := e.stories.Publish(t.Context(), d, e.clock); !errors.Is(err, mayfly.Conflict) {
		t.Errorf("as another story: %v", err)
	}
	d.Key, d.Caption = "", "shore"
	if _, err := e.stories.Publish(t.Context(), d, e.clock); !errors.Is(err, mayfly.Conflict) {
		t.Errorf("with another caption: %v", err)
	}
	if err := e.put(r.Upload, 0, photo(t, 0)); !errors.Is(err, mayfly.Conflict) {
		t.Errorf("put after publishing: %v", err)
	}
}

func TestAnUploadBecomesOneStoryHoweverManyPublishIt(t *testing.T) {
	e := open(t)
	r := e.reserve(1)
	e.Must(e.put(r.Upload, 0, photo(t, 1)))
	var published atomic.Int64
	var wait sync.WaitGroup
	for i := range 16 {
		wait.Go(func() {
			s, err := e.stories.Publish(t.Context(), story.Draft{Author: user("ana"), Upload: r.Upload, Key: string(rune('a' + i))}, e.clock)
			if err == nil && !s.Again {
				published.Add(1)
			} else if !errors.Is(err, mayfly.Conflict) {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if published.Load() != 1 {
		t.Errorf("%d stories", published.Load())
	}
}

func TestAReservationIsItsOwnersAndEndsInTime(t *testing.T) {
	e := open(t)
	r := e.reserve(1)
	ask := func(who string) error {
		_, err := e.uploads.Reservation(t.Context(), user(who), r.Upload, e.clock())
		return err
	}
	if err := ask("ben"); err != mayfly.NotFound {
		t.Error(err)
	}
	if _, err := e.uploads.Put(t.Context(), user("ben"), r.Upload, 0, bytes.NewReader(photo(t, 1)), e.clock()); err != mayfly.NotFound {
		t.Error(err)
	}
	if _, err := e.stories.Publish(t.Context(), story.Draft{Author: user("ben"), Upload: r.Upload}, e.clock); !errors.Is(err, mayfly.NotFound) {
		t.Error(err)
	}
	for _, n := range []int{-1, 1, 10} {
		if err := e.put(r.Upload, n, photo(t, 1)); err != mayfly.NotFound {
			t.Errorf("medium %d: %v", n, err)
		}
	}
	e.Must(e.put(r.Upload, 0, photo(t, 1)))
	e.at(r.Deadline)
	if err := ask("ana"); err != mayfly.Gone {
		t.Error(err)
	}
	if _, err := e.stories.Publish(t.Context(), story.Draft{Author: user("ana"), Upload: r.Upload}, e.clock); !errors.Is(err, mayfly.Gone) {
		t.Error(err)
	}
	for _, n := range []int{0, 11} {
		if _, err := e.stories.Reserve(t.Context(), user("ana"), fixture.Expect(n), e.clock()); !errors.Is(err, mayfly.Invalid) {
			t.Errorf("%d media: %v", n, err)
		}
	}
}

func TestAMediumThatIsRefusedMayBeSentAgain(t *testing.T) {
	e := open(t)
	r := e.reserve(1)
	if err := e.put(r.Upload, 0, []byte("a page")); !errors.Is(err, mayfly.Unsupported) {
		t.Error(err)
	}
	if err := e.put(r.Upload, 0, photo(t, 1)[:300]); !errors.Is(err, mayfly.Invalid) {
		t.Error(err)
	}
	if n := e.objects(e.Set.Hot); n != 0 {
		t.Errorf("%d objects", n)
	}
	e.Must(e.put(r.Upload, 0, photo(t, 1)))
}

// stuck hangs in the middle of a medium until it is let go.
type stuck struct {
	first  io.Reader
	began  chan struct{}
	letGo  chan struct{}
	begun  bool
	broken error
}

func (s *stuck) Read(p []byte) (int, error) {
	if n, err := s.first.Read(p); err == nil {
		return n, nil
	}
	if !s.begun {
		s.begun = true
		close(s.began)
		<-s.letGo
	}
	return 0, s.broken
}

func TestASlotIsFilledByOneRequestAndNotUsedAgainWhenThatRequestNeverEnds(t *testing.T) {
	e := open(t)
	r := e.reserve(1)
	s := &stuck{first: bytes.NewReader(photo(t, 1)[:300]), began: make(chan struct{}), letGo: make(chan struct{}), broken: io.ErrUnexpectedEOF}
	done := make(chan error, 1)
	go func() {
		_, err := e.uploads.Put(t.Context(), user("ana"), r.Upload, 0, s, start)
		done <- err
	}()
	<-s.began
	if err := e.put(r.Upload, 0, photo(t, 2)); !errors.Is(err, mayfly.Conflict) || !strings.Contains(err.Error(), "on its way") {
		t.Error(err)
	}
	e.pass(10 * time.Minute)
	if err := e.put(r.Upload, 0, photo(t, 2)); !errors.Is(err, mayfly.Conflict) || !strings.Contains(err.Error(), "reserve another") {
		t.Error(err)
	}
	close(s.letGo)
	if err := <-done; err == nil {
		t.Error("half a medium was taken")
	}
}

func TestAReservationIsRefusedAtTheLimit(t *testing.T) {
	e := open(t, func(o *settings) { o.Live = 1 })
	r := e.reserve(1)
	e.Must(e.put(r.Upload, 0, photo(t, 1)))
	e.publish(e.draft())
	if _, err := e.stories.Reserve(t.Context(), user("ana"), fixture.Expect(1), e.clock()); !errors.Is(err, mayfly.Conflict) {
		t.Error(err)
	}
	if _, err := e.stories.Publish(t.Context(), story.Draft{Author: user("ana"), Upload: r.Upload}, e.clock); !errors.Is(err, mayfly.Conflict) {
		t.Error(err)
	}
	e.pass(23 * time.Hour)
	e.pass(59 * time.Minute)
	if _, err := e.stories.Publish(t.Context(), story.Draft{Author: user("ana"), Upload: r.Upload}, e.clock); !errors.Is(err, mayfly.Conflict) {
		t.Error(err)
	}
}

func TestAnUploadWhosePublishingFailedIsPublishedWithTheSameKeyOnly(t *testing.T) {
	e := open(t)
	r := e.reserve(1)
	e.Must(e.put(r.Upload, 0, photo(t, 1)))
	publish := func(key string) error {
		_, err := e.stories.Publish(t.Context(), story.Draft{Author: user("ana"), Upload: r.Upload, Key: key}, e.clock)
		return err
	}
	e.doubt.Store(true)
	if err := publish("a"); !errors.Is(err, mayfly.Unavailable) {
		t.Error(err)
	}
	e.doubt.Store(false)
	if err := publish("b"); !errors.Is(err, mayfly.Conflict) { // a birth under the first key may be on its way
		t.Error(err)
	}
	e.Must(publish("a"))

	late := e.reserve(1)
	r = late
	e.Must(e.put(r.Upload, 0, photo(t, 2)))
	e.doubt.Store(true)
	if err := publish("c"); !errors.Is(err, mayfly.Unavailable) {
		t.Error(err)
	}
	e.doubt.Store(false)
	e.pass(10 * time.Minute)
	if err := publish("c"); !errors.Is(err, mayfly.Conflict) {
		t.Error(err)
	}
}
