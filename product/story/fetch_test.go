package story_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/collect"
	"github.com/mayflyhq/mayfly/engine/hydrate"
	"github.com/mayflyhq/mayfly/product/story"
	"github.com/mayflyhq/mayfly/test/fixture"
)

// putRaw is what a client does that has a presigned URL.
func (e *env) putRaw(upload mayfly.ID, n int, b []byte) {
	e.Helper()
	_, err := e.Set.Hot.Put(e.Context(), mayfly.RawKey(upload, n), bytes.NewReader(fixture.Padded(b)))
	e.Must(err)
}

// wantMedium wants medium n of a story, as its viewers read it, to be these bytes.
func (e *env) wantMedium(id mayfly.ID, n int, want []byte) {
	e.Helper()
	m, err := e.stories.Medium(e.Context(), id, mayfly.Viewer{}, hydrate.Object{Medium: n}, e.clock())
	e.Must(err)
	got, err := io.ReadAll(m)
	e.Must(errors.Join(err, m.Close()))
	if !bytes.Equal(got, want) || m.SHA256 != sha256.Sum256(want) {
		e.Errorf("medium %d of %s: %d bytes, not the %d", n, id, len(got), len(want))
	}
}

// keys are the keys in hot storage.
func (e *env) keys() (keys []mayfly.BlobKey) {
	e.Helper()
	all, err := e.Set.Hot.List(e.Context(), "", "", 10_000)
	e.Must(err)
	for _, l := range all {
		keys = append(keys, l.Key)
	}
	return keys
}

// tagged is a photo with something private in its metadata.
func tagged(photo []byte) []byte {
	note := []byte("Exif\x00\x00somewhere by the sea")
	return append(append([]byte{0xff, 0xd8, 0xff, 0xe1, 0, byte(len(note) + 2)}, note...), photo[2:]...)
}

func (e *env) draftOf(upload mayfly.ID) story.Draft {
	return story.Draft{Author: user("ana"), Caption: "sea", Audience: "everyone", Upload: upload}
}

func TestWhatWasPutRawIsCleanedAndPublishedAndTheRawIsGone(t *testing.T) {
	e, _ := openPresigned(t)
	r := e.reserve(3)
	e.putRaw(r.Upload, 0, tagged(photo(t, 0)))
	e.Must(e.put(r.Upload, 1, photo(t, 1))) // the two ways meet
	e.putRaw(r.Upload, 2, photo(t, 2))
	s := e.publish(e.draftOf(r.Upload))
	if len(s.Body.Media) != 3 || s.Body.Media[0].Type != "image/jpeg" || s.Body.Media[0].Width != 64 || s.Item.Upload != r.Upload {
		t.Errorf("%+v", s)
	}
	for n := range 3 {
		e.wantMedium(s.Item.ID, n, photo(t, byte(n))) // without what was in the metadata (C4)
	}
	if keys := e.keys(); len(keys) != 3 || strings.Contains(string(keys[0])+string(keys[1])+string(keys[2]), "raw") {
		t.Errorf("%v", keys)
	}
}

func TestABadRawMediumLosesNothingAndMayBePutAgain(t *testing.T) {
	big := append(photo(t, 1), make([]byte, 4096)...)
	for name, c := range map[string]struct {
		raw      []byte
		spoiled  bool
		kind     mayfly.Kind
		mayRead  bool
		whatElse string
	}{
		"no picture": {raw: []byte("<html>a page</html>"), kind: mayfly.Unsupported, mayRead: true},
		"cut short":  {raw: photo(t, 1)[:300], kind: mayfly.Invalid, mayRead: true},
		"empty":      {raw: []byte{}, kind: mayfly.Unsupported, mayRead: true},
		"longer":     {raw: big, kind: mayfly.Invalid, whatElse: "were reserved"},
		"spoiled":    {raw: photo(t, 1), spoiled: true, kind: mayfly.Invalid, mayRead: true},
		"not there":  {kind: mayfly.Conflict, whatElse: "has not arrived"},
	} {
		t.Run(name, func(t *testing.T) {
			e, hot := openPresigned(t, func(o *settings) { o.Upload.Limits.Image, o.Upload.Limits.Video = 4096, 4096 })
			r := e.reserve(2)
			e.putRaw(r.Upload, 0, photo(t, 0))
			raw := mayfly.RawKey(r.Upload, 1)
			if c.raw != nil {
				e.putRaw(r.Upload, 1, c.raw)
			}
			hot.spoiling = func(key mayfly.BlobKey) error {
				if c.spoiled && key == raw {
					return mayfly.Errorf(mayfly.Corrupt, "%s is not what was written", key)
				}
				return nil
			}
			for range 2 {
				_, err := e.stories.Publish(t.Context(), e.draftOf(r.Upload), e.clock)
				if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.whatElse) {
					t.Fatalf("%v, want kind %s", err, c.kind)
				}
			}
			if !c.mayRead && hot.read[raw] != 0 {
				t.Errorf("%d bytes were read", hot.read[raw])
			}
			if there, err := e.Set.Hot.Stat(t.Context(), raw); c.raw != nil && (err != nil || there.Size != int64(len(fixture.Padded(c.raw)))) {
				t.Errorf("what was put: %+v, %v", there, err)
			}
			if _, err := e.Set.Hot.Stat(t.Context(), mayfly.UploadKey(r.Upload, 1)); !errors.Is(err, mayfly.NotFound) {
				t.Errorf("something was stored of it: %v", err)
			}
			hot.spoiling = nil
			e.putRaw(r.Upload, 1, photo(t, 9))
			s := e.publish(e.draftOf(r.Upload))
			e.wantMedium(s.Item.ID, 0, photo(t, 0))
			e.wantMedium(s.Item.ID, 1, photo(t, 9))
		})
	}
}

func TestARawMediumThatIsReplacedBehindItsReadingChangesNothing(t *testing.T) {
	e, hot := openPresigned(t)
	r := e.reserve(1)
	e.putRaw(r.Upload, 0, photo(t, 1))
	replaced := 0
	hot.deleting = func(key mayfly.BlobKey) error {
		if key == mayfly.RawKey(r.Upload, 0) {
			replaced++
			e.putRaw(r.Upload, 0, photo(t, 2))
		}
		return nil
	}
	s := e.publish(e.draftOf(r.Upload))
	e.wantMedium(s.Item.ID, 0, photo(t, 1))
	if replaced != 1 {
		t.Errorf("replaced %d times", replaced)
	}
}

func TestAnUploadThatWasPutRawIsPublishedOnceAndNeverChanged(t *testing.T) {
	e, hot := openPresigned(t)
	r := e.reserve(1)
	e.putRaw(r.Upload, 0, photo(t, 1))
	hot.deleting = func(mayfly.BlobKey) error { return mayfly.Errorf(mayfly.Unavailable, "not now") } // the raw one stays
	d := e.draftOf(r.Upload)
	d.Key = "once"
	first := e.publish(d)
	hot.deleting = nil
	e.putRaw(r.Upload, 0, photo(t, 2)) // the URL is still good
	if again := e.publish(d); !again.Again || again.Item.ID != first.Item.ID || again.Body.Media[0] != first.Body.Media[0] {
		t.Errorf("again: %+v", again)
	}
	e.wantMedium(first.Item.ID, 0, photo(t, 1))

	// L12: the collector finds what was put, when the upload is old enough, and nothing else.
	log, err := audit.Open(t.Context(), e.Set.Rows, "collector", e.clock())
	e.Must(err)
	orphans, err := collect.New(e.Set, e.erase, collect.Options{Audit: log})
	e.Must(err)
	for _, c := range []struct {
		at   mayfly.Instant
		left int
	}{{r.Deadline.Add(-time.Millisecond), 2}, {r.Deadline.Add(time.Hour), 1}} {
		e.at(c.at)
		_, err := orphans.Orphans(t.Context(), collect.Run{Erase: true, Now: e.clock(), By: audit.Actor{Subject: "test"}, Reason: "test"})
		e.Must(err)
		if keys := e.keys(); len(keys) != c.left || keys[0] != mayfly.UploadKey(r.Upload, 0) {
			t.Errorf("at %s: %v", c.at, keys)
		}
	}
}

func TestAFailedTryToTakeARawMediumInIsTriedAgain(t *testing.T) {
	e, hot := openPresigned(t)
	r := e.reserve(2)
	e.putRaw(r.Upload, 0, photo(t, 0))
	e.putRaw(r.Upload, 1, photo(t, 1))
	fails := true
	hot.putting = func(key mayfly.BlobKey) error {
		if fails && key == mayfly.UploadKey(r.Upload, 1) {
			return mayfly.Errorf(mayfly.Unavailable, "not now")
		}
		return nil
	}
	if _, err := e.stories.Publish(t.Context(), e.draftOf(r.Upload), e.clock); !errors.Is(err, mayfly.Unavailable) {
		t.Error(err)
	}
	fails = false
	e.putRaw(r.Upload, 0, photo(t, 7)) // the first was taken in already
	s := e.publish(e.draftOf(r.Upload))
	e.wantMedium(s.Item.ID, 0, photo(t, 0))
	e.wantMedium(s.Item.ID, 1, photo(t, 1))
}

func TestAMediumThatArrivesMeanwhileIsTheOneThatIsPublished(t *testing.T) {
	e, hot := openPresigned(t)
	r := e.reserve(1)
	e.putRaw(r.Upload, 0, photo(t, 1))
	hot.opened = func(key mayfly.BlobKey) {
		if key == mayfly.RawKey(r.Upload, 0) {
			e.Must(e.put(r.Upload, 0, photo(t, 2)))
		}
	}
	s := e.publish(e.draftOf(r.Upload))
	e.wantMedium(s.Item.ID, 0, photo(t, 2))
}

func TestManyWhoPublishTheSameRawUploadMakeOneStory(t *testing.T) {
	e, _ := openPresigned(t)
	r := e.reserve(2)
	e.putRaw(r.Upload, 0, photo(t, 0))
	e.putRaw(r.Upload, 1, photo(t, 1))
	var mu sync.Mutex
	ids := map[mayfly.ID]int{}
	var wait sync.WaitGroup
	for range 16 {
		wait.Go(func() {
			s, err := e.stories.Publish(t.Context(), e.draftOf(r.Upload), e.clock)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				ids[s.Item.ID]++
			} else if !errors.Is(err, mayfly.Unavailable) { // what a client tries again
				t.Error(err)
			}
		})
	}
	wait.Wait()
	again := e.publish(e.draftOf(r.Upload))
	ids[again.Item.ID]++
	if len(ids) != 1 {
		t.Errorf("%v", ids)
	}
	e.wantMedium(again.Item.ID, 1, photo(t, 1))
}

func TestARawMediumIsItsOwnersToPublish(t *testing.T) {
	e, hot := openPresigned(t)
	r := e.reserve(1)
	e.putRaw(r.Upload, 0, photo(t, 1))
	d := e.draftOf(r.Upload)
	d.Author = user("ben")
	if _, err := e.stories.Publish(t.Context(), d, e.clock); !errors.Is(err, mayfly.NotFound) {
		t.Error(err)
	}
	e.at(r.Deadline)
	if _, err := e.stories.Publish(t.Context(), e.draftOf(r.Upload), e.clock); !errors.Is(err, mayfly.Gone) {
		t.Error(err)
	}
	if read := hot.read[mayfly.RawKey(r.Upload, 0)]; read != 0 {
		t.Errorf("%d bytes were read", read)
	}
}

func TestWhoHasTooManyStoriesIsRefusedBeforeARawMediumIsRead(t *testing.T) {
	e, hot := openPresigned(t, func(o *settings) { o.Live = 1 })
	r := e.reserve(1)
	e.putRaw(r.Upload, 0, photo(t, 1))
	e.publish(e.draft())
	if _, err := e.stories.Publish(t.Context(), e.draftOf(r.Upload), e.clock); !errors.Is(err, mayfly.Conflict) {
		t.Error(err)
	}
	if read := hot.read[mayfly.RawKey(r.Upload, 0)]; read != 0 {
		t.Errorf("%d bytes were read", read)
	}
}
