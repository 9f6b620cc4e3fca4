package erase_test

import (
	"bytes"
	"context"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/store"
)

type described struct{ io.Reader }

func (described) Type() string              { return "image/png" }
func (described) Dimensions() (w, h uint32) { return 2000, 1000 }

// picture publishes a story of two images.
func (h *house) picture() mayfly.Item {
	h.Helper()
	in, err := intake.New(h.real, intake.Options{})
	h.must(err)
	lifetime, err := mayfly.LifetimeOf(time.Hour)
	h.must(err)
	upload, err := in.Begin(ana(), h.now)
	h.must(err)
	for n := range 2 {
		_, err = upload.Add(context.Background(), described{bytes.NewReader(content(n))})
		h.must(err)
	}
	p, err := in.Publish(context.Background(), intake.Draft{
		Owner: ana(), Product: mayfly.Story, Fate: mayfly.Archive, Audience: mayfly.Everyone, Lifetime: lifetime, Upload: upload,
	}, h.now)
	h.must(err)
	return p.Item
}

// frames plants every rendition of an item in a tier, and describes it.
func (h *house) frames(item mayfly.Item, tier store.Blobs, g mayfly.Generation) (keys []mayfly.BlobKey) {
	h.Helper()
	var b store.Batch
	for m := range int(item.Media) {
		for _, longest := range []int{320, 1080} {
			n, _ := mayfly.RenditionOf(m, longest)
			key := item.MediaKey(g, n)
			h.put(tier, key)
			keys = append(keys, key)
			b.Put(store.Renditions, store.RenditionKey(item.ID, g, n), store.AppendRendition(nil, mayfly.Medium{Type: "image/jpeg", Size: 7}), 0)
		}
	}
	h.must(h.real.Writer.Commit(context.Background(), &b))
	return keys
}

func (h *house) descriptions(item mayfly.Item) int {
	h.Helper()
	rows, err := h.real.Rows.Range(context.Background(), store.Renditions, store.Range{Partition: string(item.ID[:]), Limit: 100})
	h.must(err)
	return len(rows)
}

func TestRenditionsDieWithTheirItemInBothTiers(t *testing.T) {
	h := open(t)
	item, other := h.picture(), h.picture()
	h.frames(item, h.real.Hot, mayfly.Born)
	h.frames(item, h.real.Cold, 2) // of a claim that broke off
	h.frames(item, h.real.Hot, 3)  // of a restore
	kept := h.frames(other, h.real.Hot, mayfly.Born)
	_, err := h.eraser().Delete(t.Context(), item.ID, mayfly.ByUser, h.now)
	h.must(err)
	h.act(item)
	if left := h.traces(item); len(left) > 0 || h.descriptions(item) != 0 {
		t.Errorf("%v and %d descriptions are left", left, h.descriptions(item))
	}
	for _, key := range kept {
		if !slices.Contains(h.keys(h.real.Hot), key) {
			t.Errorf("%s of another is gone", key)
		}
	}
	if h.descriptions(other) != 4 {
		t.Error("another's descriptions are gone")
	}
}

func TestRenditionsOfWhatIsHeldStay(t *testing.T) {
	h := open(t)
	item := h.picture()
	keys := h.frames(item, h.real.Hot, mayfly.Born)
	h.hold(item.ID)
	_, err := h.eraser().Delete(t.Context(), item.ID, mayfly.ByUser, h.now)
	h.must(err)
	h.act(item)
	for _, key := range keys {
		if !slices.Contains(h.keys(h.real.Hot), key) {
			t.Errorf("%s is gone", key)
		}
	}
}

func TestTheCollectorTakesARenditionThatNobodyIsBesideAndNoOther(t *testing.T) {
	h := open(t)
	live, cold, gone := h.picture(), h.picture(), h.picture()
	kept := h.frames(live, h.real.Hot, mayfly.Born)
	h.hold(live.ID)
	h.archive(cold)
	left := h.frames(cold, h.real.Hot, mayfly.Born) // written late, by somebody who then crashed
	row := h.row(cold.ID)
	coldKept := h.frames(row, h.real.Cold, row.Keys.Cold)
	_, err := h.eraser().Delete(t.Context(), gone.ID, mayfly.ByUser, h.now)
	h.must(err)
	h.act(gone)
	left = append(left, h.frames(gone, h.real.Hot, mayfly.Born)...)
	h.now = born.Add(3 * day)
	if report := h.collect(false); report.Orphans != len(left) || report.Deleted != len(left) {
		t.Errorf("%+v", report)
	}
	for _, key := range left {
		if slices.Contains(h.keys(h.real.Hot), key) {
			t.Errorf("%s is left", key)
		}
	}
	for _, key := range kept {
		if !slices.Contains(h.keys(h.real.Hot), key) {
			t.Errorf("%s is gone", key)
		}
	}
	for _, key := range coldKept {
		if !slices.Contains(h.keys(h.real.Cold), key) {
			t.Errorf("%s is gone", key)
		}
	}
}
