package archive_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/archive"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/store"
)

// described is a medium that says of itself that it is an image.
type described struct{ io.Reader }

func (described) Type() string              { return "image/jpeg" }
func (described) Dimensions() (w, h uint32) { return 2000, 1000 }

// picture publishes a story of one image.
func (h *fixture) picture() mayfly.Item {
	h.Helper()
	in, err := intake.New(h.real, intake.Options{})
	h.must(err)
	owner := mayfly.UserOf("test", "ana")
	lifetime, err := mayfly.LifetimeOf(time.Hour)
	h.must(err)
	uploads, err := upload.New(h.real, upload.Options{})
	h.must(err)
	u, err := uploads.Begin(owner, h.now)
	h.must(err)
	_, err = u.Add(context.Background(), described{bytes.NewReader(content(0))})
	h.must(err)
	p, err := in.Publish(context.Background(), intake.Draft{
		Owner: owner, Product: mayfly.Story, Fate: mayfly.Archive, Audience: mayfly.Everyone, Lifetime: lifetime, Upload: u,
	}, h.now)
	h.must(err)
	return p.Item
}

// rendition plants one, described as says.
func (h *fixture) rendition(item mayfly.Item, longest int, bytesOf, says []byte) int {
	h.Helper()
	n, _ := mayfly.RenditionOf(0, longest)
	g := item.Keys.Hot
	if bytesOf != nil {
		_, err := h.real.Hot.Put(context.Background(), item.MediaKey(g, n), bytes.NewReader(bytesOf))
		h.must(err)
	}
	var b store.Batch
	medium := mayfly.Medium{Type: "image/jpeg", Size: int64(len(says)), SHA256: sha256.Sum256(says), Width: 320, Height: 160}
	b.Put(upload.Renditions, upload.RenditionKey(item.ID, g, n), upload.AppendRendition(nil, medium), 0)
	h.must(h.real.Writer.Commit(context.Background(), &b))
	return n
}

func (h *fixture) has(tier store.Blobs, key mayfly.BlobKey) bool {
	h.Helper()
	_, err := tier.Stat(context.Background(), key)
	return err == nil
}

func TestRenditionsGoToColdWithTheirItem(t *testing.T) {
	h := open(t)
	item := h.picture()
	small := h.rendition(item, 320, []byte("small"), []byte("small"))
	rows := h.expire(item)
	failures, err := h.archive(2, rows...)
	h.must(err)
	row := h.row(item.ID)
	if len(failures) > 0 || row.State != mayfly.Cold {
		t.Fatalf("%s, %v", row.State, failures)
	}
	if h.has(h.real.Hot, item.MediaKey(mayfly.Born, small)) || !h.has(h.real.Cold, row.MediaKey(row.Keys.Cold, small)) {
		t.Error("it is still in hot, or not in cold")
	}
	found, err := h.real.Rows.Get(t.Context(), upload.Renditions, upload.RenditionKey(item.ID, row.Keys.Cold, small))
	h.must(err)
	medium, err := upload.ReadRendition(found[0])
	h.must(err)
	if _, err := store.ReadBack(t.Context(), h.real.Cold, row.MediaKey(row.Keys.Cold, small), medium); err != nil {
		t.Error(err)
	}
}

func TestARenditionThatCannotBeCopiedIsLeftOutAndDelaysNothing(t *testing.T) {
	for _, how := range []archive.Verify{archive.Bytes, archive.Checksum} {
		h := open(t)
		h.o.Verify = how
		item := h.picture()
		wrong := h.rendition(item, 320, []byte("other bytes"), []byte("the bytes"))
		missing := h.rendition(item, 1080, nil, []byte("not there"))
		failures, err := h.archive(2, h.expire(item)...)
		h.must(err)
		row := h.row(item.ID)
		if len(failures) > 0 || row.State != mayfly.Cold {
			t.Fatalf("%s, %v", row.State, failures)
		}
		for _, n := range []int{wrong, missing} {
			if h.has(h.real.Cold, row.MediaKey(row.Keys.Cold, n)) || h.has(h.real.Hot, row.MediaKey(mayfly.Born, n)) {
				t.Errorf("object %d is there", n)
			}
			found, err := h.real.Rows.Get(t.Context(), upload.Renditions, upload.RenditionKey(item.ID, row.Keys.Cold, n))
			h.must(err)
			if found[0] != nil {
				t.Errorf("object %d is described", n)
			}
		}
		h.readable(item.ID, 0)
	}
}

// asking counts the lookups in a table.
type asking struct {
	store.Rows
	asked *atomic.Int32
}

func (a asking) Get(ctx context.Context, t store.Table, keys ...store.Key) ([][]byte, error) {
	if t == upload.Renditions {
		a.asked.Add(1)
	}
	return a.Rows.Get(ctx, t, keys...)
}

func TestAPageAsksForRenditionsOnceAndNotAtAllWithoutImages(t *testing.T) {
	for _, tc := range []struct {
		pictures int
		want     int32
	}{{0, 0}, {3, 1}} {
		h := open(t)
		items := []mayfly.Item{h.story(1), h.story(2), h.story(0)}
		for range tc.pictures {
			items = append(items, h.picture())
		}
		var asked atomic.Int32
		h.set.Rows = asking{h.real.Rows, &asked}
		failures, err := h.archive(2, h.expire(items...)...)
		h.must(err)
		if len(failures) > 0 || asked.Load() != tc.want {
			t.Errorf("%d images: asked %d times; %v", tc.pictures, asked.Load(), failures)
		}
	}
}

func TestAClaimThatIsOverLeavesNoRenditions(t *testing.T) {
	h := open(t)
	item := h.picture()
	small := h.rendition(item, 320, []byte("small"), []byte("small"))
	rows := h.expire(item)
	var during mayfly.Generation
	h.set.Writer = describing{h.real.Writer, func() { // behind the copies, before the row names them
		row := h.row(item.ID)
		during = row.Generation
		_, err := h.real.Ledger.Transition(context.Background(), []mayfly.Change{{
			ID: item.ID, From: row.State, Generation: row.Generation, To: mayfly.Deleted, Nonce: 7, Cause: mayfly.ByUser, At: h.now,
		}})
		h.must(err)
	}}
	_, err := h.archive(2, rows...)
	h.must(err)
	if during == 0 || h.row(item.ID).State != mayfly.Deleted {
		t.Fatal("nothing came in between")
	}
	found, err := h.real.Rows.Get(t.Context(), upload.Renditions, upload.RenditionKey(item.ID, during, small))
	h.must(err)
	if found[0] != nil || h.has(h.real.Cold, item.MediaKey(during, small)) || h.has(h.real.Cold, item.MediaKey(during, 0)) {
		t.Error("something is left in cold")
	}
}

type describing struct {
	store.Writer
	then func()
}

func (d describing) Commit(ctx context.Context, b *store.Batch) error {
	err := d.Writer.Commit(ctx, b)
	for _, s := range b.Stages() {
		for _, p := range s.Puts {
			if p.Table == upload.Renditions {
				d.then()
				return err
			}
		}
	}
	return err
}
