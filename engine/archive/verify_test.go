package archive_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/archive"
	"github.com/mayflyhq/mayfly/engine/hydrate"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/storetest"
)

func TestItemsWithoutMediaCallNoTier(t *testing.T) {
	h := open(t)
	items := h.expire(h.Story(0), h.Story(0))
	no := func(storetest.BlobCall) storetest.BlobFault {
		t.Error("a tier was called")
		return storetest.NoFault
	}
	h.Set.Hot, h.Set.Cold = storetest.FaultyBlobs(h.Real.Hot, no), storetest.FaultyBlobs(h.Real.Cold, no)
	h.archived(7, items...)
	for _, item := range h.rows(items) {
		if item.State != mayfly.Cold {
			t.Errorf("%+v", item)
		}
	}
}

// attesting is a tier that computes hashes over what it holds, by itself.
type attesting struct {
	store.Blobs
	asked, opens atomic.Int64
	refuse       func(mayfly.BlobKey) error // instead of an answer; nil answers
}

func (a *attesting) Open(ctx context.Context, key mayfly.BlobKey, span store.Span) (io.ReadCloser, store.Object, error) {
	a.opens.Add(1)
	return a.Blobs.Open(ctx, key, span)
}

func (a *attesting) Checksum(ctx context.Context, key mayfly.BlobKey) ([32]byte, error) {
	a.asked.Add(1)
	if a.refuse != nil {
		return [32]byte{}, a.refuse(key)
	}
	r, _, err := a.Blobs.Open(ctx, key, store.Span{})
	if err != nil {
		return [32]byte{}, err
	}
	defer r.Close()
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		return [32]byte{}, err
	}
	return [32]byte(h.Sum(nil)), nil
}

// forging is a tier whose copies are wrong by a bit, and whose Stat repeats what
// the writer has said of them.
type forging struct {
	store.Blobs
	mu  sync.Mutex
	say map[mayfly.BlobKey]store.Object
}

func (f *forging) Put(ctx context.Context, key mayfly.BlobKey, r io.Reader) (store.Object, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return store.Object{}, err
	}
	said := store.Object{Key: key, Size: int64(len(data)), SHA256: sha256.Sum256(data)}
	f.mu.Lock()
	f.say[key] = said
	f.mu.Unlock()
	data[len(data)/2] ^= 1
	_, err = f.Blobs.Put(ctx, key, bytes.NewReader(data))
	return said, err
}

func (f *forging) Stat(ctx context.Context, key mayfly.BlobKey) (store.Object, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if said, ok := f.say[key]; ok {
		return said, nil
	}
	return f.Blobs.Stat(ctx, key)
}

func TestAChecksumIsAskedForAndASampleIsRead(t *testing.T) {
	const stories = 400
	for _, tc := range []struct{ sample, least, most int }{{1, stories, stories}, {4, stories / 8, stories / 2}, {1 << 40, 0, 0}} {
		h := open(t)
		var items []mayfly.Item
		for range stories {
			items = append(items, h.Story(1))
		}
		items = h.expire(items...)
		cold := &attesting{Blobs: h.Real.Cold}
		h.Set.Cold, h.o.Verify, h.o.Sample = cold, archive.Checksum, tc.sample
		h.archived(7, items...)
		asked, read := int(cold.asked.Load()), int(cold.opens.Load())
		if asked+read != stories || read < tc.least || read > tc.most {
			t.Errorf("sample 1 in %d: %d asked for, %d read", tc.sample, asked, read)
		}
		h.WantNamed(items...)
	}
}

// L9: what a tier says of a copy is the writer's word, unless the tier has
// computed it. Whatever Stat says, wrong bytes keep hot.
func TestTheWordOfATierIsNoVerification(t *testing.T) {
	unsupported := func(mayfly.BlobKey) error { return mayfly.Errorf(mayfly.Unsupported, "not for this object") }
	for name, tier := range map[string]func(store.Blobs) store.Blobs{
		"a tier that computes nothing": func(b store.Blobs) store.Blobs { return b },
		"one that computes":            func(b store.Blobs) store.Blobs { return &attesting{Blobs: b} },
		"one that could, and refuses":  func(b store.Blobs) store.Blobs { return &attesting{Blobs: b, refuse: unsupported} },
		"one that says that it is not well": func(b store.Blobs) store.Blobs {
			return &attesting{Blobs: b, refuse: func(mayfly.BlobKey) error { return mayfly.Corrupt }}
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := open(t)
			items := h.expire(h.Story(1), h.Story(2))
			h.o.Verify, h.o.Sample = archive.Checksum, 1<<40
			forged := &forging{Blobs: h.Real.Cold, say: map[mayfly.BlobKey]store.Object{}}
			h.Set.Cold = tier(forged)
			failures, err := h.archive(7, items...)
			if err != nil || len(failures) != 2 || !errors.Is(failures[0].Err, mayfly.Corrupt) || len(forged.say) == 0 {
				t.Fatal(failures, err)
			}
			h.readable(hydrate.Hot, items...)
		})
	}
}

// A tier that does not compute the hash of what it holds is read.
func TestWithoutAChecksumEveryCopyIsRead(t *testing.T) {
	h := open(t)
	h.o.Verify, h.o.Sample = archive.Checksum, 1<<40
	for run, refuses := range []bool{false, true} {
		if refuses {
			h.Set.Cold = &attesting{Blobs: h.Set.Cold, refuse: func(mayfly.BlobKey) error { return mayfly.Unsupported }}
		}
		items := h.expire(h.Story(3))
		h.archived(mayfly.Run(7+run), items...)
		if n := h.Hooks.Count("open cold"); n != 3*(run+1) {
			t.Fatal(refuses, n)
		}
	}
}

// A tier that cannot be asked is away, and its copies are not wrong for it.
func TestAChecksumThatCannotBeAskedForIsATierThatIsAway(t *testing.T) {
	h := open(t)
	items := h.expire(h.Story(1), h.Story(1))
	h.o.Verify, h.o.Sample = archive.Checksum, 1<<40
	h.Set.Cold = &attesting{Blobs: h.Real.Cold, refuse: func(mayfly.BlobKey) error { return mayfly.Unavailable }}
	if failures, err := h.archive(7, items...); !errors.Is(err, mayfly.Unavailable) || len(failures) > 0 {
		t.Fatal(failures, err)
	}
	h.readable(hydrate.Hot, items...)
}

// One item that a tier does not take is parked and the others go on; when no
// item is taken it is the tier, and nothing is parked (L10).
func TestATierThatIsAwayIsNotTheItemsFault(t *testing.T) {
	for _, tier := range []string{"hot", "cold"} {
		t.Run(tier, func(t *testing.T) {
			h := open(t)
			items := h.expire(h.Story(1), h.Story(1), h.Story(1), h.Story(0))
			var down func(storetest.BlobCall) bool
			plan := func(c storetest.BlobCall) storetest.BlobFault {
				if down(c) {
					return storetest.Before
				}
				return storetest.NoFault
			}
			if tier == "hot" {
				h.Set.Hot = storetest.FaultyBlobs(h.Real.Hot, plan)
			} else {
				h.Set.Cold = storetest.FaultyBlobs(h.Real.Cold, plan)
			}
			a := h.newArchive()
			act := func(run mayfly.Run, items ...mayfly.Item) error {
				failures, err := a.Act(t.Context(), h.batch(run, h.rows(items)...))
				if len(failures) > 0 {
					err = fmt.Errorf("%d failures", len(failures))
				}
				return err
			}
			down = func(storetest.BlobCall) bool { return true }
			for run := range mayfly.Run(3) {
				if err := act(run+1, items...); !errors.Is(err, mayfly.Unavailable) {
					t.Fatal(err)
				}
				if err := act(run+1, items[0]); !errors.Is(err, mayfly.Unavailable) { // alone, too
					t.Fatal(err)
				}
			}
			h.readable(hydrate.Hot, items...)
			poison := map[mayfly.BlobKey]bool{}
			for _, item := range items[:1] {
				for g := mayfly.Born; g < 50; g++ {
					poison[item.MediaKey(g, 0)] = true
				}
			}
			down = func(c storetest.BlobCall) bool { return (c.Op == "put" || c.Op == "copy") && poison[c.Keys[0]] }
			if err := act(8, items...); err == nil || err.Error() != "1 failures" {
				t.Fatal(err)
			}
			for range 2 { // alone it is still the item's: the tier answers
				if err := act(9, items[0]); err == nil || err.Error() != "1 failures" {
					t.Fatal(err)
				}
			}
			down = func(storetest.BlobCall) bool { return false }
			if err := act(10, items...); err != nil {
				t.Fatal(err)
			}
			h.readable(hydrate.Cold, items...)
			h.WantNamed(items...)
		})
	}
}
