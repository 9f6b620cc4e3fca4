package hydrate_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/hydrate"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/fixture"
)

// env is a store with one story of two media that has expired.
type env struct {
	*fixture.Engine
	id   mayfly.ID
	body mayfly.Body
}

// content returns the bytes of medium n: too many to share a file with others.
func content(n int) []byte {
	all := make([]byte, 100_000+n)
	for i := range all {
		all[i] = byte(i>>8) ^ byte(i) ^ byte(n)
	}
	return all
}

func open(t *testing.T) *env {
	t.Helper()
	h := &env{Engine: fixture.Open(t)}
	d := h.Draft()
	d.Lifetime = fixture.Lifetime(t, time.Hour)
	h.id = h.Publish(d, h.Now, string(content(0)), string(content(1))).ID
	h.body, _ = h.Body(h.id)
	h.Now = h.id.Deadline()
	h.move(mayfly.Change{To: mayfly.ExpiredHot, Cause: mayfly.ByExpiry})
	return h
}

func (h *env) row() mayfly.Item {
	h.Helper()
	item, _ := h.Find(h.id)
	return item
}

// move changes the row directly.
func (h *env) move(c mayfly.Change) mayfly.Item {
	h.Helper()
	return h.Change(h.id, c)
}

// claim, name, eraseHot and finish are the steps of an archive. Each returns the row
// after it.
func (h *env) claim() mayfly.Item { return h.move(mayfly.Change{To: mayfly.Archiving}) }

func (h *env) name() mayfly.Item {
	h.Helper()
	item := h.row()
	for n := range 2 {
		_, err := h.Real.Hot.CopyTo(context.Background(), h.Real.Cold, item.MediaKey(item.Keys.Hot, n), item.MediaKey(item.Generation, n))
		h.Must(err)
	}
	return h.move(mayfly.Change{To: mayfly.Archiving, Keys: &mayfly.Keys{Hot: item.Keys.Hot, Cold: item.Generation}})
}

func (h *env) eraseHot() mayfly.Item {
	h.Helper()
	item := h.row()
	h.Must(h.Real.Hot.Delete(context.Background(), item.MediaKey(mayfly.Born, 0), item.MediaKey(mayfly.Born, 1)))
	return item
}

func (h *env) finish() mayfly.Item {
	h.Helper()
	return h.move(mayfly.Change{To: mayfly.Cold, Keys: &mayfly.Keys{Cold: h.row().Keys.Cold}})
}

// named returns a row that names both copies.
func (h *env) named() mayfly.Item {
	h.Helper()
	h.claim()
	return h.name()
}

// archived returns the row after all steps of an archive.
func (h *env) archived() mayfly.Item {
	h.Helper()
	h.named()
	h.eraseHot()
	return h.finish()
}

// read reads a span of a medium, with a row that may be out of date.
func (h *env) read(item mayfly.Item, n int, span store.Span) ([]byte, hydrate.Tier, error) {
	h.Helper()
	reader, err := hydrate.New(h.Set, hydrate.Options{})
	h.Must(err)
	m, err := reader.Open(context.Background(), item, h.body, n, span)
	if err != nil {
		return nil, 0, err
	}
	read, err := io.ReadAll(m)
	return read, m.Tier, errors.Join(err, m.Close())
}

func (h *env) want(item mayfly.Item, from hydrate.Tier) {
	h.Helper()
	for n := range 2 {
		read, tier, err := h.read(item, n, store.Span{})
		if err != nil || tier != from || !bytes.Equal(read, content(n)) {
			h.Fatalf("medium %d by the row %s %+v: %d bytes from %s, want %s; %v", n, item.State, item.Keys, len(read), tier, from, err)
		}
	}
}

// beforeFirstOpen calls f before the first open of a tier.
func beforeFirstOpen(hooks *fixture.BlobHooks, f func()) {
	did := false
	hooks.Open = func(_ context.Context, _ mayfly.BlobKey, do func() (io.ReadCloser, store.Object, error)) (io.ReadCloser, store.Object, error) {
		if !did {
			did = true
			f()
		}
		return do()
	}
}
