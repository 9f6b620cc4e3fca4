package archive_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/archive"
	"github.com/mayflyhq/mayfly/config"
	"github.com/mayflyhq/mayfly/hydrate"
	"github.com/mayflyhq/mayfly/intake"
	"github.com/mayflyhq/mayfly/profile"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/sweep"
	"github.com/mayflyhq/mayfly/walk"
)

const born mayfly.Instant = 1_800_000_000_000

// house is the embedded profile on memory. Whatever stands in set may be wrapped
// before the archive is made.
type house struct {
	testing.TB
	set  store.Set // with what comes in the way
	real store.Set // as it is
	now  mayfly.Instant
}

func open(t *testing.T) *house {
	t.Helper()
	cfg := config.Default()
	cfg.Data, cfg.Disk.Floor = "data", 0 // memory cannot tell how full it is
	fs := vfs.NewMem()
	if err := fs.MkdirAll(cfg.Data, 0o755); err != nil {
		t.Fatal(err)
	}
	s, err := profile.EmbeddedOn(fs, cfg.Data, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return &house{TB: t, set: s.Set, real: s.Set, now: born}
}

func (h *house) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// story publishes a story of so many media, for an hour.
func (h *house) story(media int) mayfly.Item {
	h.Helper()
	in, err := intake.New(h.real, intake.Options{})
	h.must(err)
	owner := mayfly.UserOf("test", "ana")
	lifetime, err := mayfly.LifetimeOf(time.Hour)
	h.must(err)
	d := intake.Draft{Owner: owner, Sort: mayfly.Story, Fate: mayfly.Archive, Audience: mayfly.Everyone, Lifetime: lifetime, Text: "a story"}
	if media > 0 {
		d.Upload, err = in.Begin(owner, h.now)
		h.must(err)
	}
	for n := range media {
		_, err := d.Upload.Add(context.Background(), bytes.NewReader(content(n)))
		h.must(err)
	}
	p, err := in.Publish(context.Background(), d, h.now)
	h.must(err)
	return p.Item
}

func content(n int) []byte { return bytes.Repeat([]byte(fmt.Sprintf("medium %d ", n)), 900) }

// expire lets the deadline and the safety window pass and sweeps.
func (h *house) expire(items ...mayfly.Item) []mayfly.Item {
	h.Helper()
	h.now = items[0].ID.Deadline().Add(90 * time.Minute)
	failures, err := sweep.New(h.real).Act(context.Background(), walk.Batch{Items: items, Now: h.now, Run: 1})
	h.must(err)
	if len(failures) > 0 {
		h.Fatalf("sweep: %v", failures)
	}
	return h.rows(items)
}

func (h *house) rows(items []mayfly.Item) []mayfly.Item {
	h.Helper()
	rows := make([]mayfly.Item, len(items))
	for i, item := range items {
		rows[i] = h.row(item.ID)
	}
	return rows
}

func (h *house) row(id mayfly.ID) mayfly.Item {
	h.Helper()
	found, err := h.real.Ledger.Get(context.Background(), id)
	h.must(err)
	return found[0].Item
}

// archive acts on items once, by a run of its own.
func (h *house) archive(run mayfly.Run, items ...mayfly.Item) ([]walk.Failure, error) {
	h.Helper()
	a, err := archive.New(h.set, archive.Options{})
	h.must(err)
	return a.Act(context.Background(), walk.Batch{Items: items, Now: h.now, Run: run, Repeat: true})
}

// readable opens every medium by the row as it is and holds it against what was uploaded.
func (h *house) readable(id mayfly.ID, want hydrate.Tier) {
	h.Helper()
	item := h.row(id)
	body, err := h.real.Ledger.Body(context.Background(), id)
	h.must(err)
	for n := range int(item.Media) {
		m, err := hydrate.New(h.real).Open(context.Background(), item, body[0].Body, n, store.Span{})
		if err != nil {
			h.Fatalf("medium %d of %s (%s): %v", n, id, item.State, err)
		}
		read, err := io.ReadAll(m)
		if err := errors.Join(err, m.Close()); err != nil || sha256.Sum256(read) != sha256.Sum256(content(n)) {
			h.Fatalf("medium %d of %s is not what was uploaded: %v", n, id, err)
		}
		if want != 0 && m.Tier != want {
			h.Fatalf("medium %d was read from %s, not from %s", n, m.Tier, want)
		}
	}
}

func (h *house) objects(tier store.Blobs) int {
	h.Helper()
	listed, err := tier.List(context.Background(), "", "", 1000)
	h.must(err)
	return len(listed)
}

// transitions calls after behind every Transition of the wrapped ledger.
type transitions struct {
	store.Ledger
	after func(call int)
	calls int
}

func (l *transitions) Transition(ctx context.Context, changes []mayfly.Change) ([]store.Outcome, error) {
	outcomes, err := l.Ledger.Transition(ctx, changes)
	l.calls++
	l.after(l.calls)
	return outcomes, err
}
