package archive_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/hydrate"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// hanging is a tier that does not answer what hangs names, and says so like a
// driver does when the caller's time is up.
type hanging struct {
	store.Blobs
	hangs func(op string) bool
}

func (h *hanging) wait(ctx context.Context, op string) error {
	if !h.hangs(op) {
		return nil
	}
	<-ctx.Done()
	return mayfly.Wrap(mayfly.Unavailable, ctx.Err(), "")
}

func (h *hanging) Put(ctx context.Context, key mayfly.BlobKey, r io.Reader) (store.Object, error) {
	if err := h.wait(ctx, "put"); err != nil {
		return store.Object{}, err
	}
	return h.Blobs.Put(ctx, key, r)
}

func (h *hanging) Open(ctx context.Context, key mayfly.BlobKey, span store.Span) (io.ReadCloser, store.Object, error) {
	if err := h.wait(ctx, "open"); err != nil {
		return nil, store.Object{}, err
	}
	return h.Blobs.Open(ctx, key, span)
}

func (h *hanging) Stat(ctx context.Context, key mayfly.BlobKey) (store.Object, error) {
	if err := h.wait(ctx, "stat"); err != nil {
		return store.Object{}, err
	}
	return h.Blobs.Stat(ctx, key)
}

func (h *hanging) Delete(ctx context.Context, keys ...mayfly.BlobKey) error {
	if err := h.wait(ctx, "delete"); err != nil {
		return err
	}
	return h.Blobs.Delete(ctx, keys...)
}

func (h *hanging) CopyTo(ctx context.Context, to store.Blobs, from, as mayfly.BlobKey) (store.Object, error) {
	if err := h.wait(ctx, "copy"); err != nil {
		return store.Object{}, err
	}
	return h.Blobs.CopyTo(ctx, to, from, as)
}

// A tier that hangs uses up the time of a batch, down to one item, and is no item's
// fault: the walk waits and parks nothing (L10). One that answers, and does not get
// one item copied in time, has that item parked.
func TestATierThatHangsIsNotTheItemsFault(t *testing.T) {
	const patience = 30 * time.Second
	all := func(string) bool { return true }
	for name, c := range map[string]struct {
		hot, cold func(op string) bool
		parked    bool
	}{
		"hot":                       {hot: all},
		"cold":                      {cold: all},
		"from the delete on":        {hot: func(op string) bool { return op == "delete" || op == "stat" }},
		"one that answers and slow": {hot: func(op string) bool { return op == "copy" }, parked: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := open(t)
				items := h.expire(h.Story(1), h.Story(2), h.Story(0))
				if c.hot != nil {
					h.Set.Hot = &hanging{h.Real.Hot, c.hot}
				}
				if c.cold != nil {
					h.Set.Cold = &hanging{h.Real.Cold, c.cold}
				}
				a := h.newArchive()
				for _, batch := range [][]mayfly.Item{items, items[:1], items[1:2]} {
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					began := time.Now()
					failures, err := a.Act(ctx, h.batch(7, h.rows(batch)...))
					cancel()
					if took := time.Since(began); took > patience+5*time.Second || len(failures) > 0 {
						t.Errorf("after %s: %v, %v", took, failures, err)
					}
					if down := walk.IsDown(err); down == c.parked || errors.Is(err, context.DeadlineExceeded) != c.parked {
						t.Errorf("%d items: %v", len(batch), err)
					}
				}
				h.readable(0, items...)
				h.Set = h.Real
				h.archived(8, h.rows(items)...)
				h.readable(hydrate.Cold, items...)
				h.WantNamed(items...)
			})
		})
	}
}
