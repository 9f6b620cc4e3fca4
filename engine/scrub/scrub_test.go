package erase_test

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/archive"
	"github.com/mayflyhq/mayfly/engine/erase"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/loop"
)

func (h *house) scrub(rate int64) erase.ScrubReport {
	h.Helper()
	r, err := h.eraser().Scrub(h.Context(), erase.ScrubRun{Rows: erase.Span{From: born, To: born.Add(2 * time.Hour)}, Now: h.now, BytesPerSecond: rate})
	h.must(err)
	return r
}

// spoil replaces an object by other bytes.
func (h *house) spoil(tier store.Blobs, key mayfly.BlobKey, how func([]byte) []byte) {
	h.Helper()
	_, err := tier.Put(h.Context(), key, bytes.NewReader(how(bytes.Clone(content(1)))))
	h.must(err)
}

const fast = 1 << 40

func TestAScrubFindsEveryColdCopyThatIsNotWhatWasUploaded(t *testing.T) {
	h := open(t)
	items := []mayfly.Item{h.story(3), h.story(3), h.story(3), h.story(0)}
	h.archive(items...)
	if r := h.scrub(fast); r.Items != 3 || r.Objects != 9 || r.BadObjects != 0 || r.Bytes != 9*int64(len(content(0))) {
		t.Fatalf("of a healthy tier: %+v", r)
	}
	key := func(i, n int) mayfly.BlobKey { row := h.row(items[i].ID); return row.MediaKey(row.Keys.Cold, n) }
	h.spoil(h.real.Cold, key(0, 1), func(b []byte) []byte { b[17] ^= 1; return b })
	h.spoil(h.real.Cold, key(1, 1), func(b []byte) []byte { return b[:len(b)-1] })
	h.must(h.real.Cold.Delete(t.Context(), key(2, 0)))
	before, held := h.rows(items), h.contents(h.real.Cold)
	r := h.scrub(fast)
	bad := map[mayfly.BlobKey]bool{}
	for _, b := range r.Bad {
		bad[b.Key] = true
	}
	if r.BadObjects != 3 || len(bad) != 3 || !bad[key(0, 1)] || !bad[key(1, 1)] || !bad[key(2, 0)] || r.Again != 0 {
		t.Fatalf("%+v", r)
	}
	for i, row := range h.rows(items) {
		if row != before[i] {
			t.Fatal("a row was moved")
		}
	}
	if !maps.Equal(h.contents(h.real.Cold), held) {
		t.Fatal("a scrub wrote to what is cold")
	}
}

// contents is what a tier holds, byte for byte.
func (h *house) contents(tier store.Blobs) map[mayfly.BlobKey]string {
	h.Helper()
	all := map[mayfly.BlobKey]string{}
	for _, key := range h.keys(tier) {
		r, _, err := tier.Open(h.Context(), key, store.Span{})
		h.must(err)
		b, err := io.ReadAll(r)
		h.must(errors.Join(err, r.Close()))
		all[key] = string(b)
	}
	return all
}

func TestAScrubLetsTheArchiveCopyAgainWhereHotIsWhole(t *testing.T) {
	h := open(t)
	whole, gone := h.story(1), h.story(1)
	h.sweep(whole, gone)
	h.now = born.Add(150 * time.Minute)
	for _, item := range []mayfly.Item{whole, gone} { // as a worker leaves them that stopped before it erased hot
		row := h.change(item.ID, mayfly.Change{To: mayfly.Archiving, Cause: mayfly.ByArchive})
		h.put(h.real.Cold, row.MediaKey(row.Generation, 0))
		h.change(item.ID, mayfly.Change{To: mayfly.Archiving, Cause: mayfly.ByArchive, Keys: &mayfly.Keys{Hot: 1, Cold: row.Generation}})
	}
	h.must(h.real.Hot.Delete(t.Context(), gone.MediaKey(1, 0)))
	before := h.row(gone.ID)
	h.now = h.now.Add(10*time.Minute - 1)
	if r := h.scrub(fast); r.BadObjects != 2 || r.Again != 0 {
		t.Fatalf("while the worker may be about to erase hot: %+v", r)
	}
	h.now++
	if r := h.scrub(fast); r.BadObjects != 2 || r.Again != 1 {
		t.Fatalf("%+v", r)
	}
	if h.row(gone.ID) != before {
		t.Fatal("the row of one whose hot copy is gone was moved")
	}
	due := h.now.Add(2 * time.Minute)
	notes, err := h.real.Rows.Range(t.Context(), store.Reminders, store.Range{Partition: remind.Partition(due.Minute(), whole.ID.Shard()), Limit: 9})
	h.must(err)
	if note, err := remind.Read(notes[0]); err != nil || len(notes) != 1 || note.ID != whole.ID || note.Step != remind.Archive {
		t.Fatalf("%+v, %v", note, err)
	}
	a, err := archive.New(h.real, archive.Options{})
	h.must(err)
	h.acted(a.Act(t.Context(), walk.Batch{Items: h.rows([]mayfly.Item{whole}), Now: h.now, Repeat: true}))
	if r := h.scrub(fast); r.BadObjects != 1 || h.row(whole.ID).State != mayfly.Cold {
		t.Fatalf("after the archive: %+v, %+v", r, h.row(whole.ID))
	}
}

func TestAScrubReadsNoFasterThanItMay(t *testing.T) {
	h := open(t)
	h.archive(h.story(2))
	size := int64(2 * len(content(0)))
	took := loop.Measure(func() { h.scrub(size * 20) }) // 50 ms
	if took < 50*time.Millisecond {
		t.Fatalf("it took %s", took)
	}
}

// L9: in rounds behind a durable position, which another process goes on from.
func TestAScrubGoesOnWhereItStoppedAndBeginsAnewAfterItsTime(t *testing.T) {
	h := open(t)
	var items []mayfly.Item
	for range 6 {
		items = append(items, h.story(2))
		h.now = h.now.Add(7 * time.Minute)
	}
	h.archive(items...)
	size := int64(len(content(0)))
	on := func() erase.ScrubReport { // by an eraser that remembers nothing
		r, err := h.eraser().ScrubOn(t.Context(), erase.ScrubRun{
			Rows: erase.Span{From: born, To: born.Add(2 * time.Hour)}, Now: h.now, BytesPerSecond: fast,
		}, day)
		h.must(err)
		return r
	}
	round := func() (objects, calls int) {
		for ; calls < 100; calls++ {
			r := on()
			objects += r.Objects
			if r.Bytes != int64(r.Objects)*size {
				t.Fatalf("%+v", r)
			}
			if r.Whole {
				return objects, calls
			}
		}
		t.Fatal("it comes to no end")
		return 0, 0
	}
	if objects, calls := round(); objects != 12 || calls < 6 {
		t.Fatalf("%d objects in %d calls", objects, calls)
	}
	h.now = h.now.Add(day - time.Millisecond)
	if objects, _ := round(); objects != 0 {
		t.Fatalf("%d objects were read again too soon", objects)
	}
	h.now++
	row := h.row(items[3].ID)
	h.spoil(h.real.Cold, row.MediaKey(row.Keys.Cold, 1), func(b []byte) []byte { return b[1:] })
	bad := 0
	for r := on(); !r.Whole; r = on() {
		bad += r.BadObjects
	}
	if bad != 1 || h.row(items[3].ID) != row {
		t.Fatalf("%d bad objects were found", bad)
	}
}
