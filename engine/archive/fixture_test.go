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
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/app/profile"
	"github.com/mayflyhq/mayfly/engine/archive"
	"github.com/mayflyhq/mayfly/engine/hydrate"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/sweep"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/tables"
)

const born mayfly.Instant = 1_800_000_000_000

// fixture is the embedded profile in memory. A test may wrap what is in set before
// it makes the archive.
type fixture struct {
	testing.TB
	set  store.Set // with what comes in the way
	real store.Set // as it is
	o    archive.Options
	now  mayfly.Instant

	close func() error
}

func open(t *testing.T) *fixture {
	t.Helper()
	return openOn(t, vfs.NewMem())
}

func openOn(t *testing.T, fs vfs.FS) *fixture {
	t.Helper()
	cfg := config.Default()
	cfg.Data, cfg.Disk.Floor = "data", 0 // memory cannot tell how full it is
	if err := fs.MkdirAll(cfg.Data, 0o755); err != nil {
		t.Fatal(err)
	}
	s, err := profile.EmbeddedOn(fs, cfg.Data, cfg, tables.All())
	if err != nil {
		t.Fatal(err)
	}
	h := &fixture{TB: t, set: s.Set, real: s.Set, now: born, close: s.Close}
	t.Cleanup(func() { h.must(h.close()) })
	h.o.Erase = h.erase
	return h
}

// restart closes the store and opens it again on the same disk.
func (h *fixture) restart(t *testing.T, fs vfs.FS) {
	t.Helper()
	h.must(h.close())
	again := openOn(t, fs)
	h.set, h.real, h.close = again.set, again.real, func() error { return nil }
}

// erase is an eraser: every computable key in both tiers, and the body.
func (h *fixture) erase(ctx context.Context, b walk.Batch) ([]walk.Failure, error) {
	for _, item := range b.Items {
		if err := item.Erasable(); err != nil {
			return nil, err
		}
		var keys []mayfly.BlobKey
		for n := range int(item.Media) {
			for g := mayfly.Born; g <= item.Generation; g++ {
				keys = append(keys, item.MediaKey(g, n))
			}
		}
		err := errors.Join(h.real.Hot.Delete(ctx, keys...), h.real.Cold.Delete(ctx, keys...), h.real.Ledger.EraseBody(ctx, item.ID))
		if err != nil {
			return nil, err
		}
	}
	return nil, nil
}

func (h *fixture) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// story publishes a story of so many media, for an hour.
func (h *fixture) story(media int) mayfly.Item {
	h.Helper()
	return h.storyOf("ana", media)
}

func (h *fixture) storyOf(name string, media int) mayfly.Item {
	h.Helper()
	in, err := intake.New(h.real, intake.Options{})
	h.must(err)
	owner := mayfly.UserOf("test", name)
	lifetime, err := mayfly.LifetimeOf(time.Hour)
	h.must(err)
	d := intake.Draft{Owner: owner, Product: mayfly.Story, Fate: mayfly.Archive, Audience: mayfly.Everyone, Lifetime: lifetime, Text: "a story"}
	if media > 0 {
		uploads, err := upload.New(h.real, upload.Options{})
		h.must(err)
		d.Upload, err = uploads.Begin(owner, h.now)
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

func (h *fixture) sweep() walk.Walk {
	h.Helper()
	s, err := sweep.New(h.real, sweep.Options{})
	h.must(err)
	return s.Walk()
}

// expire lets the deadline and the safety window pass and sweeps.
func (h *fixture) expire(items ...mayfly.Item) []mayfly.Item {
	h.Helper()
	h.now = items[0].ID.Deadline().Add(90 * time.Minute)
	failures, err := h.sweep().Act(context.Background(), walk.Batch{Items: items, Now: h.now, Run: 1})
	h.must(err)
	if len(failures) > 0 {
		h.Fatalf("sweep: %v", failures)
	}
	return h.rows(items)
}

func (h *fixture) rows(items []mayfly.Item) []mayfly.Item {
	h.Helper()
	rows := make([]mayfly.Item, len(items))
	for i, item := range items {
		rows[i] = h.row(item.ID)
	}
	return rows
}

func (h *fixture) row(id mayfly.ID) mayfly.Item {
	h.Helper()
	found, err := h.real.Ledger.Get(context.Background(), id)
	h.must(err)
	return found[0].Item
}

func (h *fixture) newArchive() *archive.Archive {
	h.Helper()
	a, err := archive.New(h.set, h.o)
	h.must(err)
	return a
}

// archive acts on items once, by a run of its own.
func (h *fixture) archive(run mayfly.Run, items ...mayfly.Item) ([]walk.Failure, error) {
	h.Helper()
	return h.newArchive().Act(context.Background(), h.batch(run, items...))
}

func (h *fixture) batch(run mayfly.Run, items ...mayfly.Item) walk.Batch {
	return walk.Batch{Items: items, Now: h.now, Run: run, Repeat: true}
}

// readable opens every medium by the row as it is and holds it against what was uploaded.
func (h *fixture) readable(id mayfly.ID, want hydrate.Tier) {
	h.Helper()
	item := h.row(id)
	body, err := h.real.Ledger.Body(context.Background(), id)
	h.must(err)
	for n := range int(item.Media) {
		reader, err := hydrate.New(h.real, hydrate.Options{})
		h.must(err)
		m, err := reader.Open(context.Background(), item, body[0].Body, n, store.Span{})
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

func (h *fixture) objects(tier store.Blobs) int {
	h.Helper()
	listed, err := tier.List(context.Background(), "", "", 1000)
	h.must(err)
	return len(listed)
}

// transitions calls before in front of and after behind every Transition of the
// wrapped ledger; either may be nil.
type transitions struct {
	store.Ledger
	before func(call int)
	after  func(call int)
	calls  int
}

func (l *transitions) Transition(ctx context.Context, changes []mayfly.Change) ([]store.Outcome, error) {
	l.calls++
	call := l.calls
	if l.before != nil {
		l.before(call)
	}
	outcomes, err := l.Ledger.Transition(ctx, changes)
	if l.after != nil {
		l.after(call)
	}
	return outcomes, err
}

// events counts the events of a verb by their key.
func (h *fixture) events(verb mayfly.Verb) map[mayfly.EventKey]int {
	h.Helper()
	ctx := context.Background()
	r, err := h.real.Log.Reader(ctx, mayfly.Ends, "test")
	h.must(err)
	announced := map[mayfly.EventKey]int{}
	for {
		lag, err := r.Lag(ctx)
		h.must(err)
		if lag == 0 {
			h.must(r.Close())
			return announced
		}
		records, err := r.Next(ctx, 1000)
		h.must(err)
		for _, record := range records {
			if record.Event.Verb == verb {
				announced[record.Event.Key()]++
			}
		}
	}
}

// reminders are those that are due between two instants.
func (h *fixture) reminders(from, to mayfly.Instant) (all []remind.Reminder) {
	h.Helper()
	for minute := from.Minute(); minute <= to.Minute(); minute++ {
		for shard := range mayfly.Shard(mayfly.Shards) {
			rows, err := h.real.Rows.Range(context.Background(), remind.Reminders, store.Range{Partition: remind.Partition(minute, shard), Limit: 1000})
			h.must(err)
			for _, row := range rows {
				r, err := remind.Read(row)
				h.must(err)
				all = append(all, r)
			}
		}
	}
	return all
}

// exact says that the tiers hold what the rows name and nothing else.
func (h *fixture) exact(items ...mayfly.Item) {
	h.Helper()
	named := map[string]bool{}
	for _, item := range h.rows(items) {
		if item.State == mayfly.Deleted {
			continue
		}
		for n := range int(item.Media) {
			if item.Keys.Hot != 0 {
				named["hot "+string(item.MediaKey(item.Keys.Hot, n))] = true
			}
			if item.Keys.Cold != 0 {
				named["cold "+string(item.MediaKey(item.Keys.Cold, n))] = true
			}
		}
	}
	for name, tier := range map[string]store.Blobs{"hot ": h.real.Hot, "cold ": h.real.Cold} {
		listed, err := tier.List(context.Background(), "", "", 10_000)
		h.must(err)
		for _, o := range listed {
			if !named[name+string(o.Key)] {
				h.Errorf("ORPHAN: no row names %s%s", name, o.Key)
			}
			delete(named, name+string(o.Key))
		}
	}
	for key := range named {
		h.Errorf("LOST: a row names %s", key)
	}
}
