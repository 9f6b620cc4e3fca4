package restore_test

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
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/archive"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/erase"
	"github.com/mayflyhq/mayfly/engine/hydrate"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/restore"
	"github.com/mayflyhq/mayfly/engine/sweep"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/diskfs"
	"github.com/mayflyhq/mayfly/test/tables"
)

const (
	genesis mayfly.Instant = 1_800_000_000_000
	window                 = 30 * time.Minute
)

// fixture is the embedded profile with all steps of an item's life. The Restore under
// test uses set, which tests may wrap; everything else uses real.
type fixture struct {
	set, real store.Set
	now       mayfly.Instant
	origin    mayfly.Instant
	owner     mayfly.UserID
	options   restore.Options
	random    io.Reader // random source of ids; nil is crypto/rand
	walkers   map[mayfly.Shard]*remind.Walker
	reader    store.Reader
	counted   map[mayfly.ID]map[mayfly.EventKey]int
	close     func() error
}

func openFixture(fs diskfs.FS, now mayfly.Instant) (*fixture, error) {
	cfg := config.Default()
	cfg.Data, cfg.Disk.Floor = "data", 0 // a file system in memory does not report free space
	cfg.Memory.Memtable, cfg.Memory.MediaMemtable = 1<<20, 1<<20
	if err := fs.MkdirAll(cfg.Data, 0o755); err != nil {
		return nil, err
	}
	s, err := profile.EmbeddedOn(fs, cfg.Data, cfg, tables.All())
	if err != nil {
		return nil, err
	}
	h := &fixture{
		set: s.Set, real: s.Set, now: now, owner: mayfly.UserOf("test", "ana"), close: s.Close,
		options: restore.Options{Window: window, Retention: 3 * 365 * 24 * time.Hour},
		walkers: map[mayfly.Shard]*remind.Walker{},
	}
	h.origin, err = walk.Origin(context.Background(), s.Set.Rows, now)
	return h, err
}

// testFixture is a fixture whose methods fail the test.
type testFixture struct {
	*fixture
	testing.TB
}

func open(t testing.TB) *testFixture {
	t.Helper()
	h, err := openFixture(vfs.NewMem(), genesis)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.close(); err != nil {
			t.Error(err)
		}
	})
	return &testFixture{h, t}
}

func (h *testFixture) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// support returns the Restore under test.
func (h *testFixture) support() *restore.Restore {
	h.Helper()
	r, err := h.restorer()
	h.must(err)
	return r
}

func (h *testFixture) get(id mayfly.ID) mayfly.Item {
	h.Helper()
	item, err := h.row(id)
	h.must(err)
	return item
}

func (h *testFixture) item(s stage, media int) mayfly.Item {
	h.Helper()
	item, err := h.at(s, media)
	h.must(err)
	return item
}

// restorer returns a Restore over set.
func (h *fixture) restorer() (*restore.Restore, error) {
	log, err := audit.Open(context.Background(), h.set.Rows, "test", h.now)
	if err != nil {
		return nil, err
	}
	return restore.New(h.set, log, h.options)
}

func content(n int) []byte { return bytes.Repeat([]byte(fmt.Sprintf("medium %d ", n)), 300) }

// publish publishes a story with a number of media for an hour.
func (h *fixture) publish(media int, fate mayfly.Fate) (mayfly.Item, error) {
	return h.publishFor(time.Hour, media, fate)
}

func (h *fixture) publishFor(d time.Duration, media int, fate mayfly.Fate) (mayfly.Item, error) {
	ctx := context.Background()
	in, err := intake.New(h.real, intake.Options{Random: h.random})
	if err != nil {
		return mayfly.Item{}, err
	}
	lifetime, err := mayfly.LifetimeOf(d)
	if err != nil {
		return mayfly.Item{}, err
	}
	draft := intake.Draft{Owner: h.owner, Product: mayfly.Story, Fate: fate, Audience: mayfly.Everyone, Lifetime: lifetime, Text: "a story"}
	if media > 0 {
		uploads, err := upload.New(h.real, upload.Options{Random: h.random})
		if err != nil {
			return mayfly.Item{}, err
		}
		if draft.Upload, err = uploads.Begin(h.owner, h.now); err != nil {
			return mayfly.Item{}, err
		}
	}
	for n := range media {
		if _, err := draft.Upload.Add(ctx, bytes.NewReader(content(n))); err != nil {
			return mayfly.Item{}, err
		}
	}
	p, err := in.Publish(ctx, draft, h.now)
	return p.Item, err
}

func (h *fixture) row(id mayfly.ID) (mayfly.Item, error) {
	found, err := h.real.Ledger.Get(context.Background(), id)
	if err != nil {
		return mayfly.Item{}, err
	}
	return found[0].Item, nil
}

// sweep expires an item as the walk does, with the given run. It writes a reminder
// that replaces the archive walk.
func (h *fixture) sweep(run mayfly.Run, id mayfly.ID) error {
	item, err := h.row(id)
	if err != nil {
		return err
	}
	h.now = max(h.now, item.End())
	failures, err := sweepOf(sweep.New(h.real, sweep.Options{})).Act(context.Background(), walk.Batch{Items: []mayfly.Item{item}, Now: h.now, Run: run})
	if err != nil || len(failures) > 0 {
		return fmt.Errorf("sweep: %v: %w", failures, err)
	}
	var b store.Batch
	remind.Write(&b, remind.Reminder{Due: h.now.Add(window), ID: id, Step: remind.Archive, Reason: "the walk"})
	return h.real.Writer.Commit(context.Background(), &b)
}

func (h *fixture) archive(id mayfly.ID) error {
	item, err := h.row(id)
	if err != nil {
		return err
	}
	a, err := archive.New(h.real, archive.Options{Window: window})
	if err != nil {
		return err
	}
	h.now = max(h.now, item.End().Add(window))
	failures, err := a.Act(context.Background(), walk.Batch{Items: []mayfly.Item{item}, Now: h.now, Run: 9})
	if err != nil || len(failures) > 0 {
		return fmt.Errorf("archive: %v: %w", failures, err)
	}
	return nil
}

// change changes a row directly, as another process would.
func (h *fixture) change(id mayfly.ID, c mayfly.Change) error {
	item, err := h.row(id)
	if err != nil {
		return err
	}
	c.ID, c.From, c.Generation, c.Nonce, c.At = id, item.State, item.Generation, 99, h.now
	if c.To == 0 {
		c.To = item.State
	}
	outcomes, err := h.real.Ledger.Transition(context.Background(), []mayfly.Change{c})
	if err == nil && outcomes[0].Result != store.Applied {
		err = fmt.Errorf("%s: %w", outcomes[0].Result, outcomes[0].Err)
	}
	return err
}

// delete deletes an item as its author.
func (h *fixture) delete(id mayfly.ID) error {
	e, err := erase.New(h.real, erase.Options{})
	if err != nil {
		return err
	}
	_, err = e.Delete(context.Background(), id, mayfly.ByUser, h.now)
	return err
}

// acts returns the steps as a node connects them.
func (h *fixture) acts() (remind.Acts, error) {
	a, err := archive.New(h.real, archive.Options{Window: window})
	if err != nil {
		return nil, err
	}
	log, err := audit.Open(context.Background(), h.real.Rows, "reminders", h.now)
	if err != nil {
		return nil, err
	}
	r, err := restore.New(h.real, log, h.options)
	if err != nil {
		return nil, err
	}
	e, err := erase.New(h.real, erase.Options{})
	if err != nil {
		return nil, err
	}
	s, err := sweep.New(h.real, sweep.Options{Window: window})
	if err != nil {
		return nil, err
	}
	return remind.Acts{
		remind.Expire: func(ctx context.Context, b walk.Batch) ([]walk.Failure, error) {
			failures, err := s.Expire(ctx, b)
			if err != nil {
				return nil, err
			}
			more, err := r.Clean(ctx, b)
			return append(failures, more...), err
		},
		remind.Archive: a.Act, remind.Erase: e.Act, remind.Tidy: e.TidyAct,
	}, nil
}

// mediaKeys returns all keys that an item can have up to a generation.
func mediaKeys(item mayfly.Item, last mayfly.Generation) (keys []mayfly.BlobKey) {
	for g := mayfly.Born; g <= last; g++ {
		for n := range int(item.Media) {
			keys = append(keys, item.MediaKey(g, n))
		}
	}
	return keys
}

// live lets time pass and runs the reminders of the item's shard.
func (h *fixture) live(id mayfly.ID, d, step time.Duration) error {
	w := h.walkers[id.Shard()]
	if w == nil {
		acts, err := h.acts()
		if err != nil {
			return err
		}
		shard := walk.NewShard(h.real.Rows, id.Shard(), fmt.Sprintf("test-%d", h.now), 5*time.Second, h.origin)
		if w, err = remind.New(h.real, shard, acts, remind.Options{}); err != nil {
			return err
		}
		h.walkers[id.Shard()] = w
	}
	for end := h.now.Add(d); h.now < end; {
		h.now = min(end, h.now.Add(step))
		for more := true; more; {
			var err error
			if more, err = w.Pass(context.Background(), h.now); err != nil {
				return err
			}
		}
	}
	return nil
}

// readable reads every medium that the row names and compares it with the upload (I2).
func (h *fixture) readable(item mayfly.Item) (tier hydrate.Tier, err error) {
	body, err := h.real.Ledger.Body(context.Background(), item.ID)
	if err != nil {
		return 0, err
	}
	for n := range int(item.Media) {
		reader, err := hydrate.New(h.real, hydrate.Options{})
		if err != nil {
			return 0, err
		}
		m, err := reader.Open(context.Background(), item, body[0].Body, n, store.Span{})
		if err != nil {
			return 0, fmt.Errorf("medium %d of %s (%s, %+v): %w", n, item.ID, item.State, item.Keys, err)
		}
		read, err := io.ReadAll(m)
		if err := errors.Join(err, m.Close()); err != nil || sha256.Sum256(read) != sha256.Sum256(content(n)) {
			return 0, fmt.Errorf("medium %d of %s is not what was uploaded: %w", n, item.ID, err)
		}
		tier = m.Tier
	}
	return tier, nil
}

// unnamed returns the objects of an item that its row does not name.
func (h *fixture) unnamed(item mayfly.Item) (keys []string, err error) {
	for g := mayfly.Born; g <= item.Generation+3; g++ {
		for n := range int(item.Media) {
			for tier, blobs := range map[string]store.Blobs{"hot": h.real.Hot, "cold": h.real.Cold} {
				named := tier == "hot" && item.Keys.Hot == g || tier == "cold" && item.Keys.Cold == g
				if named && item.State != mayfly.Deleted {
					continue
				}
				_, err := blobs.Stat(context.Background(), item.MediaKey(g, n))
				if err == nil {
					keys = append(keys, fmt.Sprintf("%s %s", tier, item.MediaKey(g, n)))
				} else if !errors.Is(err, mayfly.NotFound) {
					return nil, err
				}
			}
		}
	}
	return keys, nil
}

// events counts the events of an item by key, over all calls.
func (h *fixture) events(id mayfly.ID) (map[mayfly.EventKey]int, error) {
	ctx := context.Background()
	if h.counted == nil {
		r, err := h.real.Log.Reader(ctx, mayfly.Ends, "test")
		if err != nil {
			return nil, err
		}
		h.reader, h.counted = r, map[mayfly.ID]map[mayfly.EventKey]int{}
	}
	for {
		lag, err := h.reader.Lag(ctx)
		if err != nil || lag == 0 {
			return h.counted[id], err
		}
		records, err := h.reader.Next(ctx, 1000)
		if err != nil {
			return nil, err
		}
		for _, record := range records {
			e := record.Event
			if h.counted[e.ID] == nil {
				h.counted[e.ID] = map[mayfly.EventKey]int{}
			}
			h.counted[e.ID][e.Key()]++
		}
	}
}

func (h *fixture) restoredEntry(id mayfly.ID) (bool, error) {
	found, err := h.real.Rows.Get(context.Background(), engine.Restored, engine.RestoredKey(id))
	if err != nil {
		return false, err
	}
	return found[0] != nil, nil
}

// stage is a state in which an item can be restored.
type stage int

const (
	pending stage = iota // active after its deadline
	expired
	claimed // by an archive worker that died
	named   // the same, after the row named the cold copy
	cold
	stages
)

func (s stage) String() string {
	return [...]string{"sweep_pending", "expired_hot", "archiving", "archiving, both named", "cold"}[s]
}

// at publishes a story and brings it to a stage.
func (h *fixture) at(s stage, media int) (mayfly.Item, error) {
	item, err := h.publish(media, mayfly.Archive)
	if err != nil {
		return item, err
	}
	h.now = item.ID.Deadline().Add(time.Minute)
	if s == pending { // the sweep comes later
		var b store.Batch
		remind.Write(&b, remind.Reminder{Due: h.now.Add(10 * time.Minute), ID: item.ID, Step: remind.Expire, Reason: "the walk"})
		return item, h.real.Writer.Commit(context.Background(), &b)
	}
	if err := h.sweep(1, item.ID); err != nil {
		return item, err
	}
	switch s {
	case claimed, named:
		if err = h.change(item.ID, mayfly.Change{To: mayfly.Archiving, Cause: mayfly.ByArchive}); err != nil {
			return item, err
		}
		claim, err := h.row(item.ID)
		if err != nil || s == claimed || media == 0 {
			return claim, err
		}
		for n := range media {
			if _, err := h.real.Hot.CopyTo(context.Background(), h.real.Cold, claim.MediaKey(claim.Keys.Hot, n), claim.MediaKey(claim.Generation, n)); err != nil {
				return item, err
			}
		}
		keys := mayfly.Keys{Hot: claim.Keys.Hot, Cold: claim.Generation}
		if err := h.change(item.ID, mayfly.Change{To: mayfly.Archiving, Cause: mayfly.ByArchive, Keys: &keys}); err != nil {
			return item, err
		}
	case cold:
		if err := h.archive(item.ID); err != nil {
			return item, err
		}
	}
	return h.row(item.ID)
}

func (h *fixture) request(id mayfly.ID) restore.Request {
	return restore.Request{ID: id, Until: h.now.Add(20 * time.Minute), By: "ben", Reason: "ticket 7"}
}

// zeros is a reader of a number of zero bytes.
type zeros struct{ left int }

func (z *zeros) Read(p []byte) (int, error) {
	if z.left == 0 {
		return 0, io.EOF
	}
	n := min(len(p), z.left)
	clear(p[:n])
	z.left -= n
	return n, nil
}

// sweepOf returns the walk of a sweep.
func sweepOf(s *sweep.Sweep, err error) walk.Walk {
	if err != nil {
		panic(err)
	}
	return s.Walk()
}
