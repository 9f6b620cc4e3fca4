package hydrate_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/app/profile"
	"github.com/mayflyhq/mayfly/engine/hydrate"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/tables"
)

const born mayfly.Instant = 1_800_000_000_000

// fixture is the embedded profile in memory, with one story of two media. Tests may
// wrap set.
type fixture struct {
	testing.TB
	set, real store.Set
	now       mayfly.Instant
	id        mayfly.ID
	body      mayfly.Body
}

func content(n int) []byte {
	all := make([]byte, 100_000+n)
	for i := range all {
		all[i] = byte(i>>8) ^ byte(i) ^ byte(n)
	}
	return all
}

func open(t *testing.T) *fixture {
	t.Helper()
	cfg := config.Default()
	cfg.Data, cfg.Disk.Floor = "data", 0 // a file system in memory does not report free space
	fs := vfs.NewMem()
	if err := fs.MkdirAll(cfg.Data, 0o755); err != nil {
		t.Fatal(err)
	}
	s, err := profile.EmbeddedOn(fs, cfg.Data, cfg, tables.All())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	h := &fixture{TB: t, set: s.Set, real: s.Set, now: born}
	h.publish()
	return h
}

func (h *fixture) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

func (h *fixture) publish() {
	h.Helper()
	in, err := intake.New(h.real, intake.Options{})
	h.must(err)
	lifetime, err := mayfly.LifetimeOf(time.Hour)
	h.must(err)
	owner := mayfly.UserOf("test", "ana")
	uploads, err := upload.New(h.real, upload.Options{})
	h.must(err)
	u, err := uploads.Begin(owner, h.now)
	h.must(err)
	for n := range 2 {
		_, err := u.Add(context.Background(), bytes.NewReader(content(n)))
		h.must(err)
	}
	p, err := in.Publish(context.Background(), intake.Draft{
		Owner: owner, Product: mayfly.Story, Fate: mayfly.Archive, Audience: mayfly.Everyone, Lifetime: lifetime, Upload: u,
	}, h.now)
	h.must(err)
	body, err := h.real.Ledger.Body(context.Background(), p.Item.ID)
	h.must(err)
	h.id, h.body, h.now = p.Item.ID, body[0].Body, p.Item.ID.Deadline()
	h.move(mayfly.Change{To: mayfly.ExpiredHot, Cause: mayfly.ByExpiry})
}

func (h *fixture) row() mayfly.Item {
	h.Helper()
	found, err := h.real.Ledger.Get(context.Background(), h.id)
	h.must(err)
	return found[0].Item
}

// move changes the row directly.
func (h *fixture) move(c mayfly.Change) mayfly.Item {
	h.Helper()
	item := h.row()
	c.ID, c.From, c.Generation, c.Nonce, c.At = h.id, item.State, item.Generation, 9, h.now
	outcomes, err := h.real.Ledger.Transition(context.Background(), []mayfly.Change{c})
	h.must(err)
	if outcomes[0].Result != store.Applied {
		h.Fatalf("%+v", outcomes[0])
	}
	return outcomes[0].Current
}

// claim, name, eraseHot and finish are the steps of an archive. Each returns the row
// after it.
func (h *fixture) claim() mayfly.Item { return h.move(mayfly.Change{To: mayfly.Archiving}) }

func (h *fixture) name() mayfly.Item {
	h.Helper()
	item := h.row()
	for n := range 2 {
		_, err := h.real.Hot.CopyTo(context.Background(), h.real.Cold, item.MediaKey(item.Keys.Hot, n), item.MediaKey(item.Generation, n))
		h.must(err)
	}
	return h.move(mayfly.Change{To: mayfly.Archiving, Keys: &mayfly.Keys{Hot: item.Keys.Hot, Cold: item.Generation}})
}

func (h *fixture) eraseHot() mayfly.Item {
	h.Helper()
	item := h.row()
	h.must(h.real.Hot.Delete(context.Background(), item.MediaKey(mayfly.Born, 0), item.MediaKey(mayfly.Born, 1)))
	return item
}

func (h *fixture) finish() mayfly.Item {
	h.Helper()
	return h.move(mayfly.Change{To: mayfly.Cold, Keys: &mayfly.Keys{Cold: h.row().Keys.Cold}})
}

// read reads a span of a medium, with a row that may be out of date.
func (h *fixture) read(item mayfly.Item, n int, span store.Span) ([]byte, hydrate.Tier, error) {
	h.Helper()
	reader, err := hydrate.New(h.set, hydrate.Options{})
	h.must(err)
	m, err := reader.Open(context.Background(), item, h.body, n, span)
	if err != nil {
		return nil, 0, err
	}
	read, err := io.ReadAll(m)
	return read, m.Tier, errors.Join(err, m.Close())
}

func (h *fixture) want(item mayfly.Item, from hydrate.Tier) {
	h.Helper()
	for n := range 2 {
		read, tier, err := h.read(item, n, store.Span{})
		if err != nil || tier != from || !bytes.Equal(read, content(n)) {
			h.Fatalf("medium %d by the row %s %+v: %d bytes from %s, want %s; %v", n, item.State, item.Keys, len(read), tier, from, err)
		}
	}
}

// opening calls before at the start of every Open of a tier.
type opening struct {
	store.Blobs
	before func()
}

func (o opening) Open(ctx context.Context, key mayfly.BlobKey, span store.Span) (io.ReadCloser, store.Object, error) {
	o.before()
	return o.Blobs.Open(ctx, key, span)
}
