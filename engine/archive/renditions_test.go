package archive_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"slices"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/archive"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/store"
)

// rendition plants one, described as says.
func (h *env) rendition(item mayfly.Item, longest int, bytesOf, says []byte) int {
	h.Helper()
	n, _ := mayfly.RenditionOf(0, longest)
	g := item.Keys.Hot
	if bytesOf != nil {
		_, err := h.Real.Hot.Put(context.Background(), item.MediaKey(g, n), bytes.NewReader(bytesOf))
		h.Must(err)
	}
	var b store.Batch
	medium := mayfly.Medium{Type: "image/jpeg", Size: int64(len(says)), SHA256: sha256.Sum256(says), Width: 320, Height: 160}
	b.Put(upload.Renditions, upload.RenditionKey(item.ID, g, n), upload.AppendRendition(nil, medium), 0)
	h.Must(h.Real.Writer.Commit(context.Background(), &b))
	return n
}

func TestRenditionsGoToColdWithTheirItem(t *testing.T) {
	h := open(t)
	item := h.Picture(1)
	small := h.rendition(item, 320, []byte("small"), []byte("small"))
	rows := h.expire(item)
	failures, err := h.archive(2, rows...)
	h.Must(err)
	row := h.Row(item.ID)
	if len(failures) > 0 || row.State != mayfly.Cold {
		t.Fatalf("%s, %v", row.State, failures)
	}
	if h.Has(h.Real.Hot, item.MediaKey(mayfly.Born, small)) || !h.Has(h.Real.Cold, row.MediaKey(row.Keys.Cold, small)) {
		t.Error("it is still in hot, or not in cold")
	}
	found, err := h.Real.Rows.Get(t.Context(), upload.Renditions, upload.RenditionKey(item.ID, row.Keys.Cold, small))
	h.Must(err)
	medium, err := upload.ReadRendition(found[0])
	h.Must(err)
	if _, err := upload.ReadBack(t.Context(), h.Real.Cold, row.MediaKey(row.Keys.Cold, small), medium); err != nil {
		t.Error(err)
	}
}

func TestARenditionThatCannotBeCopiedIsLeftOutAndDelaysNothing(t *testing.T) {
	for _, how := range []archive.Verify{archive.Bytes, archive.Checksum} {
		h := open(t)
		h.o.Verify = how
		item := h.Picture(1)
		wrong := h.rendition(item, 320, []byte("other bytes"), []byte("the bytes"))
		missing := h.rendition(item, 1080, nil, []byte("not there"))
		failures, err := h.archive(2, h.expire(item)...)
		h.Must(err)
		row := h.Row(item.ID)
		if len(failures) > 0 || row.State != mayfly.Cold {
			t.Fatalf("%s, %v", row.State, failures)
		}
		for _, n := range []int{wrong, missing} {
			if h.Has(h.Real.Cold, row.MediaKey(row.Keys.Cold, n)) || h.Has(h.Real.Hot, row.MediaKey(mayfly.Born, n)) {
				t.Errorf("object %d is there", n)
			}
			found, err := h.Real.Rows.Get(t.Context(), upload.Renditions, upload.RenditionKey(item.ID, row.Keys.Cold, n))
			h.Must(err)
			if found[0] != nil {
				t.Errorf("object %d is described", n)
			}
		}
		h.readable(0, item)
	}
}

func TestAPageAsksForRenditionsOnceAndNotAtAllWithoutImages(t *testing.T) {
	for _, tc := range []struct {
		pictures int
		want     int
	}{{0, 0}, {3, 1}} {
		h := open(t)
		items := []mayfly.Item{h.Story(1), h.Story(2), h.Story(0)}
		for range tc.pictures {
			items = append(items, h.Picture(1))
		}
		asked := h.countRowsGet(upload.Renditions)
		failures, err := h.archive(2, h.expire(items...)...)
		h.Must(err)
		if len(failures) > 0 || *asked != tc.want {
			t.Errorf("%d images: asked %d times; %v", tc.pictures, *asked, failures)
		}
	}
}

func TestAClaimThatIsOverLeavesNoRenditions(t *testing.T) {
	h := open(t)
	item := h.Picture(1)
	small := h.rendition(item, 320, []byte("small"), []byte("small"))
	rows := h.expire(item)
	var during mayfly.Generation
	h.Hooks.Commit = func(_ context.Context, b *store.Batch, do func() error) error {
		err := do()
		for _, s := range b.Stages() {
			if during == 0 && slices.ContainsFunc(s.Puts, func(p store.Put) bool { return p.Table == upload.Renditions }) {
				during = h.Row(item.ID).Generation // behind the copies, before the row names them
				h.Change(item.ID, mayfly.Change{To: mayfly.Deleted, Cause: mayfly.ByUser})
			}
		}
		return err
	}
	_, err := h.archive(2, rows...)
	h.Must(err)
	if during == 0 || h.Row(item.ID).State != mayfly.Deleted {
		t.Fatal("nothing came in between")
	}
	found, err := h.Real.Rows.Get(t.Context(), upload.Renditions, upload.RenditionKey(item.ID, during, small))
	h.Must(err)
	if found[0] != nil || h.Has(h.Real.Cold, item.MediaKey(during, small)) || h.Has(h.Real.Cold, item.MediaKey(during, 0)) {
		t.Error("something is left in cold")
	}
}
