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
	"github.com/mayflyhq/mayfly/product/story"
)

// putRaw is what a client does that has a presigned URL.
func (h *house) putRaw(upload mayfly.ID, n int, b []byte) {
	h.Helper()
	_, err := h.set.Hot.Put(h.Context(), mayfly.RawKey(upload, n), bytes.NewReader(b))
	h.must(err)
}

// wantMedium wants medium n of a story, as its viewers read it, to be these bytes.
func (h *house) wantMedium(id mayfly.ID, n int, want []byte) {
	h.Helper()
	m, err := h.stories.Medium(h.Context(), id, mayfly.Viewer{}, story.Object{Medium: n}, h.clock())
	h.must(err)
	got, err := io.ReadAll(m)
	h.must(errors.Join(err, m.Close()))
	if !bytes.Equal(got, want) || m.SHA256 != sha256.Sum256(want) {
		h.Errorf("medium %d of %s: %d bytes, not the %d", n, id, len(got), len(want))
	}
}

// keys are the keys in hot storage.
func (h *house) keys() (keys []mayfly.BlobKey) {
	h.Helper()
	all, err := h.set.Hot.List(h.Context(), "", "", 10_000)
	h.must(err)
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

func (h *house) draftOf(upload mayfly.ID) story.Draft {
	return story.Draft{Author: user("ana"), Caption: "sea", Audience: "everyone", Upload: upload}
}

func TestWhatWasPutRawIsCleanedAndPublishedAndTheRawIsGone(t *testing.T) {
	h, _ := openPresigned(t)
	r := h.reserve(3)
	h.putRaw(r.Upload, 0, tagged(photo(t, 0)))
	h.must(h.put(r.Upload, 1, photo(t, 1))) // the two ways meet
	h.putRaw(r.Upload, 2, photo(t, 2))
	s := h.publish(h.draftOf(r.Upload))
	if len(s.Body.Media) != 3 || s.Body.Media[0].Type != "image/jpeg" || s.Body.Media[0].Width != 24 || s.Item.Upload != r.Upload {
		t.Errorf("%+v", s)
	}
	for n := range 3 {
		h.wantMedium(s.Item.ID, n, photo(t, byte(n))) // without what was in the metadata (C4)
	}
	if keys := h.keys(); len(keys) != 3 || strings.Contains(string(keys[0])+string(keys[1])+string(keys[2]), "raw") {
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
		"empty":      {raw: []byte{}, kind: mayfly.Invalid, mayRead: true},
		"too large":  {raw: big, kind: mayfly.TooLarge},
		"spoiled":    {raw: photo(t, 1), spoiled: true, kind: mayfly.Invalid, mayRead: true},
		"not there":  {kind: mayfly.Conflict, whatElse: "has not arrived"},
	} {
		t.Run(name, func(t *testing.T) {
			h, hot := openPresigned(t, func(o *story.Options) { o.Media.Image, o.Media.Video = 4096, 4096 })
			r := h.reserve(2)
			h.putRaw(r.Upload, 0, photo(t, 0))
			raw := mayfly.RawKey(r.Upload, 1)
			if c.raw != nil {
				h.putRaw(r.Upload, 1, c.raw)
			}
			hot.spoiling = func(key mayfly.BlobKey) error {
				if c.spoiled && key == raw {
					return mayfly.Errorf(mayfly.Corrupt, "%s is not what was written", key)
				}
				return nil
			}
			for range 2 {
				_, err := h.stories.Publish(t.Context(), h.draftOf(r.Upload), h.clock)
				if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.whatElse) {
					t.Fatalf("%v, want kind %s", err, c.kind)
				}
			}
			if !c.mayRead && hot.read[raw] != 0 {
				t.Errorf("%d bytes were read", hot.read[raw])
			}
			if there, err := h.set.Hot.Stat(t.Context(), raw); c.raw != nil && (err != nil || there.Size != int64(len(c.raw))) {
				t.Errorf("what was put: %+v, %v", there, err)
			}
			if _, err := h.set.Hot.Stat(t.Context(), mayfly.UploadKey(r.Upload, 1)); !errors.Is(err, mayfly.NotFound) {
				t.Errorf("something was stored of it: %v", err)
			}
			hot.spoiling = nil
			h.putRaw(r.Upload, 1, photo(t, 9))
			s := h.publish(h.draftOf(r.Upload))
			h.wantMedium(s.Item.ID, 0, photo(t, 0))
			h.wantMedium(s.Item.ID, 1, photo(t, 9))
		})
	}
}

func TestARawMediumThatIsReplacedBehindItsReadingChangesNothing(t *testing.T) {
	h, hot := openPresigned(t)
	r := h.reserve(1)
	h.putRaw(r.Upload, 0, photo(t, 1))
	replaced := 0
	hot.deleting = func(key mayfly.BlobKey) error {
		if key == mayfly.RawKey(r.Upload, 0) {
			replaced++
			h.putRaw(r.Upload, 0, photo(t, 2))
		}
		return nil
	}
	s := h.publish(h.draftOf(r.Upload))
	h.wantMedium(s.Item.ID, 0, photo(t, 1))
	if replaced != 1 {
		t.Errorf("replaced %d times", replaced)
	}
}

func TestAnUploadThatWasPutRawIsPublishedOnceAndNeverChanged(t *testing.T) {
	h, hot := openPresigned(t)
	r := h.reserve(1)
	h.putRaw(r.Upload, 0, photo(t, 1))
	hot.deleting = func(mayfly.BlobKey) error { return mayfly.Errorf(mayfly.Unavailable, "not now") } // the raw one stays
	d := h.draftOf(r.Upload)
	d.Key = "once"
	first := h.publish(d)
	hot.deleting = nil
	h.putRaw(r.Upload, 0, photo(t, 2)) // the URL is still good
	if again := h.publish(d); !again.Again || again.Item.ID != first.Item.ID || again.Body.Media[0] != first.Body.Media[0] {
		t.Errorf("again: %+v", again)
	}
	h.wantMedium(first.Item.ID, 0, photo(t, 1))

	// L12: the collector finds what was put, when the upload is old enough, and nothing else.
	log, err := audit.Open(t.Context(), h.set.Rows, "collector", h.clock())
	h.must(err)
	orphans, err := collect.New(h.set, h.erase, collect.Options{Audit: log})
	h.must(err)
	for _, c := range []struct {
		at   mayfly.Instant
		left int
	}{{r.Deadline.Add(-time.Millisecond), 2}, {r.Deadline.Add(time.Hour), 1}} {
		h.at(c.at)
		_, err := orphans.Orphans(t.Context(), collect.Run{Erase: true, Now: h.clock(), By: "test", Reason: "test"})
		h.must(err)
		if keys := h.keys(); len(keys) != c.left || keys[0] != mayfly.UploadKey(r.Upload, 0) {
			t.Errorf("at %s: %v", c.at, keys)
		}
	}
}

func TestAFailedTryToTakeARawMediumInIsTriedAgain(t *testing.T) {
	h, hot := openPresigned(t)
	r := h.reserve(2)
	h.putRaw(r.Upload, 0, photo(t, 0))
	h.putRaw(r.Upload, 1, photo(t, 1))
	fails := true
	hot.putting = func(key mayfly.BlobKey) error {
		if fails && key == mayfly.UploadKey(r.Upload, 1) {
			return mayfly.Errorf(mayfly.Unavailable, "not now")
		}
		return nil
	}
	if _, err := h.stories.Publish(t.Context(), h.draftOf(r.Upload), h.clock); !errors.Is(err, mayfly.Unavailable) {
		t.Error(err)
	}
	fails = false
	h.putRaw(r.Upload, 0, photo(t, 7)) // the first was taken in already
	s := h.publish(h.draftOf(r.Upload))
	h.wantMedium(s.Item.ID, 0, photo(t, 0))
	h.wantMedium(s.Item.ID, 1, photo(t, 1))
}

func TestAMediumThatArrivesMeanwhileIsTheOneThatIsPublished(t *testing.T) {
	h, hot := openPresigned(t)
	r := h.reserve(1)
	h.putRaw(r.Upload, 0, photo(t, 1))
	hot.opened = func(key mayfly.BlobKey) {
		if key == mayfly.RawKey(r.Upload, 0) {
			h.must(h.put(r.Upload, 0, photo(t, 2)))
		}
	}
	s := h.publish(h.draftOf(r.Upload))
	h.wantMedium(s.Item.ID, 0, photo(t, 2))
}

func TestManyWhoPublishTheSameRawUploadMakeOneStory(t *testing.T) {
	h, _ := openPresigned(t)
	r := h.reserve(2)
	h.putRaw(r.Upload, 0, photo(t, 0))
	h.putRaw(r.Upload, 1, photo(t, 1))
	var mu sync.Mutex
	ids := map[mayfly.ID]int{}
	var wait sync.WaitGroup
	for range 16 {
		wait.Go(func() {
			s, err := h.stories.Publish(t.Context(), h.draftOf(r.Upload), h.clock)
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
	again := h.publish(h.draftOf(r.Upload))
	ids[again.Item.ID]++
	if len(ids) != 1 {
		t.Errorf("%v", ids)
	}
	h.wantMedium(again.Item.ID, 1, photo(t, 1))
}

func TestARawMediumIsItsOwnersToPublish(t *testing.T) {
	h, hot := openPresigned(t)
	r := h.reserve(1)
	h.putRaw(r.Upload, 0, photo(t, 1))
	d := h.draftOf(r.Upload)
	d.Author = user("ben")
	if _, err := h.stories.Publish(t.Context(), d, h.clock); !errors.Is(err, mayfly.NotFound) {
		t.Error(err)
	}
	h.at(r.Deadline)
	if _, err := h.stories.Publish(t.Context(), h.draftOf(r.Upload), h.clock); !errors.Is(err, mayfly.Gone) {
		t.Error(err)
	}
	if read := hot.read[mayfly.RawKey(r.Upload, 0)]; read != 0 {
		t.Errorf("%d bytes were read", read)
	}
}

func TestWhoHasTooManyStoriesIsRefusedBeforeARawMediumIsRead(t *testing.T) {
	h, hot := openPresigned(t, func(o *story.Options) { o.Live = 1 })
	r := h.reserve(1)
	h.putRaw(r.Upload, 0, photo(t, 1))
	h.publish(h.draft())
	if _, err := h.stories.Publish(t.Context(), h.draftOf(r.Upload), h.clock); !errors.Is(err, mayfly.Conflict) {
		t.Error(err)
	}
	if read := hot.read[mayfly.RawKey(r.Upload, 0)]; read != 0 {
		t.Errorf("%d bytes were read", read)
	}
}
