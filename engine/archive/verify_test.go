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

// counting counts the calls of a tier.
type counting struct {
	store.Blobs
	mu                                 sync.Mutex
	calls, puts, opens, stats, deletes int
}

func (c *counting) count(n *int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	*n++
}

func (c *counting) Put(ctx context.Context, key mayfly.BlobKey, r io.Reader) (store.Object, error) {
	c.count(&c.puts)
	return c.Blobs.Put(ctx, key, r)
}

func (c *counting) Open(ctx context.Context, key mayfly.BlobKey, span store.Span) (io.ReadCloser, store.Object, error) {
	c.count(&c.opens)
	return c.Blobs.Open(ctx, key, span)
}

func (c *counting) Stat(ctx context.Context, key mayfly.BlobKey) (store.Object, error) {
	c.count(&c.stats)
	return c.Blobs.Stat(ctx, key)
}

func (c *counting) Delete(ctx context.Context, keys ...mayfly.BlobKey) error {
	for _, key := range keys {
		if _, err := c.Blobs.Stat(ctx, key); err == nil { // of computable keys most are not there
			c.count(&c.deletes)
			break
		}
	}
	return c.Blobs.Delete(ctx, keys...)
}

func TestItemsWithoutMediaCallNoTier(t *testing.T) {
	h := open(t)
	items := h.expire(h.story(0), h.story(0))
	no := func(storetest.BlobCall) storetest.BlobFault {
		t.Error("a tier was called")
		return storetest.NoFault
	}
	h.set.Hot, h.set.Cold = storetest.FaultyBlobs(h.real.Hot, no), storetest.FaultyBlobs(h.real.Cold, no)
	if failures, err := h.archive(7, items...); err != nil || len(failures) > 0 {
		t.Fatal(failures, err)
	}
	for _, item := range h.rows(items) {
		if item.State != mayfly.Cold {
			t.Errorf("%+v", item)
		}
	}
}

// attesting is a tier that computes hashes over what it holds, by itself.
type attesting struct {
	*counting
	asked  atomic.Int64
	refuse func(mayfly.BlobKey) error // instead of an answer; nil answers
}

func (a *attesting) Checksum(ctx context.Context, key mayfly.BlobKey) ([32]byte, error) {
	a.asked.Add(1)
	if a.refuse != nil {
		return [32]byte{}, a.refuse(key)
	}
	r, _, err := a.counting.Blobs.Open(ctx, key, store.Span{})
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
			items = append(items, h.story(1))
		}
		items = h.expire(items...)
		cold := &attesting{counting: &counting{Blobs: h.real.Cold}}
		h.set.Cold, h.o.Verify, h.o.Sample = cold, archive.Checksum, tc.sample
		if failures, err := h.archive(7, items...); err != nil || len(failures) > 0 {
			t.Fatal(failures, err)
		}
		if asked := int(cold.asked.Load()); asked+cold.opens != stories || cold.opens < tc.least || cold.opens > tc.most {
			t.Errorf("sample 1 in %d: %d asked for, %d read", tc.sample, asked, cold.opens)
		}
		h.exact(items...)
	}
}

// L9: what a tier says of a copy is the writer's word, unless the tier has
// computed it. Whatever Stat says, wrong bytes keep hot.
func TestTheWordOfATierIsNoVerification(t *testing.T) {
	unsupported := func(mayfly.BlobKey) error { return mayfly.Errorf(mayfly.Unsupported, "not for this object") }
	for name, tier := range map[string]func(store.Blobs) store.Blobs{
		"a tier that computes nothing": func(b store.Blobs) store.Blobs { return b },
		"one that computes":            func(b store.Blobs) store.Blobs { return &attesting{counting: &counting{Blobs: b}} },
		"one that could, and refuses":  func(b store.Blobs) store.Blobs { return &attesting{counting: &counting{Blobs: b}, refuse: unsupported} },
		"one that says that it is not well": func(b store.Blobs) store.Blobs {
			return &attesting{counting: &counting{Blobs: b}, refuse: func(mayfly.BlobKey) error { return mayfly.Corrupt }}
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := open(t)
			items := h.expire(h.story(1), h.story(2))
			h.o.Verify, h.o.Sample = archive.Checksum, 1<<40
			forged := &forging{Blobs: h.real.Cold, say: map[mayfly.BlobKey]store.Object{}}
			h.set.Cold = tier(forged)
			failures, err := h.archive(7, items...)
			if err != nil || len(failures) != 2 || !errors.Is(failures[0].Err, mayfly.Corrupt) || len(forged.say) == 0 {
				t.Fatal(failures, err)
			}
			for _, item := range items {
				h.readable(item.ID, hydrate.Hot)
			}
		})
	}
}

// A tier that does not compute the hash of what it holds is read.
func TestWithoutAChecksumEveryCopyIsRead(t *testing.T) {
	h := open(t)
	h.o.Verify, h.o.Sample = archive.Checksum, 1<<40
	for run, refuses := range []bool{false, true} {
		cold := &counting{Blobs: h.real.Cold}
		h.set.Cold = cold
		if refuses {
			h.set.Cold = &attesting{counting: cold, refuse: func(mayfly.BlobKey) error { return mayfly.Unsupported }}
		}
		items := h.expire(h.story(3))
		if failures, err := h.archive(mayfly.Run(7+run), items...); err != nil || len(failures) > 0 || cold.opens != 3 {
			t.Fatal(refuses, failures, err, cold.opens)
		}
	}
}

// A tier that cannot be asked is away, and its copies are not wrong for it.
func TestAChecksumThatCannotBeAskedForIsATierThatIsAway(t *testing.T) {
	h := open(t)
	items := h.expire(h.story(1), h.story(1))
	h.o.Verify, h.o.Sample = archive.Checksum, 1<<40
	h.set.Cold = &attesting{counting: &counting{Blobs: h.real.Cold}, refuse: func(mayfly.BlobKey) error { return mayfly.Unavailable }}
	if failures, err := h.archive(7, items...); !errors.Is(err, mayfly.Unavailable) || len(failures) > 0 {
		t.Fatal(failures, err)
	}
	for _, item := range items {
		h.readable(item.ID, hydrate.Hot)
	}
}

// One item that a tier does not take is parked and the others go on; when no
// item is taken it is the tier, and nothing is parked (L10).
func TestATierThatIsAwayIsNotTheItemsFault(t *testing.T) {
	for _, tier := range []string{"hot", "cold"} {
		t.Run(tier, func(t *testing.T) {
			h := open(t)
			items := h.expire(h.story(1), h.story(1), h.story(1), h.story(0))
			var down func(storetest.BlobCall) bool
			plan := func(c storetest.BlobCall) storetest.BlobFault {
				if down(c) {
					return storetest.Before
				}
				return storetest.NoFault
			}
			if tier == "hot" {
				h.set.Hot = storetest.FaultyBlobs(h.real.Hot, plan)
			} else {
				h.set.Cold = storetest.FaultyBlobs(h.real.Cold, plan)
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
			for _, item := range items {
				h.readable(item.ID, hydrate.Hot)
			}
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
			for _, item := range items {
				h.readable(item.ID, hydrate.Cold)
			}
			h.exact(items...)
		})
	}
}
