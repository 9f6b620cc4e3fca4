package erase_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/archive"
	"github.com/mayflyhq/mayfly/engine/erase"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/diskstore"
	"github.com/mayflyhq/mayfly/store/memstore"
	"github.com/mayflyhq/mayfly/store/pebblestore"
)

const (
	born mayfly.Instant = 1_800_000_000_000
	day                 = 24 * time.Hour
	// soon is when the reminders of a deed are due, and settled.
	soon = 2*time.Minute + 30*time.Second
)

func ana() mayfly.UserID { return mayfly.UserOf("test", "ana") }
func ben() mayfly.UserID { return mayfly.UserOf("test", "ben") }

// house is the embedded store. Whatever stands in set may be wrapped before the
// eraser is made.
type house struct {
	testing.TB
	set       store.Set // with what comes in the way
	real      store.Set // as it is
	deletions store.Blobs
	now       mayfly.Instant
	origin    mayfly.Instant // before which no reminder is looked for
	random    *rand.Rand     // of ids; nil: crypto
	close     func() error
}

func open(t testing.TB) *house {
	t.Helper()
	h := openOn(t, vfs.NewMem())
	t.Cleanup(func() {
		if err := h.close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// openOn opens the store on a file system; the caller closes it.
func openOn(t testing.TB, fs vfs.FS) *house {
	t.Helper()
	fuse := store.NewFuse()
	db, err := pebblestore.Open(pebblestore.Options{FS: fs, Dir: "db", Fuse: fuse, MemtableBytes: 256 << 10, CacheBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	set := store.Set{Writer: db.Writer(), Ledger: db.Ledger(), Rows: db.Rows(), Log: db.Log(), Signals: memstore.NewSignals(), Fuse: fuse}
	closers := []func() error{db.Close}
	tier := func(name string) store.Blobs {
		s, err := diskstore.Open(diskstore.Options{FS: fs, Dir: name, Fuse: fuse, MemtableBytes: 256 << 10, CacheBytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		closers = append(closers, s.Close)
		return s
	}
	set.Hot, set.Cold = tier("hot"), tier("cold")
	h := &house{TB: t, set: set, real: set, deletions: tier("deletions"), now: born, origin: born.Add(-time.Minute)}
	h.close = func() error {
		var all error
		for i := len(closers) - 1; i >= 0; i-- {
			all = errors.Join(all, closers[i]())
		}
		return all
	}
	return h
}

// seeded is a source of randomness whose seed is printed; MAYFLY_SEED takes it back.
func seeded(t testing.TB) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	if text := os.Getenv("MAYFLY_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

func (h *house) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

func (h *house) eraser() *erase.Erase { return h.eraserWith(erase.Options{}) }

func (h *house) eraserWith(o erase.Options) *erase.Erase {
	h.Helper()
	e, err := erase.New(h.set, o)
	h.must(err)
	return e
}

func content(n int) []byte { return bytes.Repeat([]byte(fmt.Sprintf("medium %d ", n)), 100) }

// story publishes a story of ana's with so many media, for an hour.
func (h *house) story(media int) mayfly.Item {
	return h.publish(intake.Draft{Owner: ana(), Fate: mayfly.Archive}, media)
}

func (h *house) publish(d intake.Draft, media int) mayfly.Item {
	h.Helper()
	o := intake.Options{}
	if h.random != nil {
		o.Random = bits{h.random}
	}
	in, err := intake.New(h.real, o)
	h.must(err)
	d.Product, d.Audience, d.Text = mayfly.Story, mayfly.Everyone, "a story"
	if d.Lifetime == mayfly.Never {
		d.Lifetime, err = mayfly.LifetimeOf(time.Hour)
		h.must(err)
	}
	if d.Lifetime == eternal {
		d.Lifetime = mayfly.Never
	}
	if media > 0 {
		d.Upload, err = in.Begin(d.Owner, h.now)
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

// eternal stands for Never in a draft, whose zero is an hour here.
const eternal = mayfly.Lifetime(0xffff)

// bits is a reader of random bits that a seed decides.
type bits struct{ *rand.Rand }

func (b bits) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(b.Uint32())
	}
	return len(p), nil
}

// sweep expires items at an hour after their birth, as the sweep does.
func (h *house) sweep(items ...mayfly.Item) {
	h.Helper()
	for _, item := range items {
		h.now = max(h.now, item.ID.Deadline())
		to := mayfly.ExpiredHot
		if item.Fate == mayfly.Purge {
			to = mayfly.Deleted
		}
		h.change(item.ID, mayfly.Change{To: to, Cause: mayfly.ByExpiry, Run: 1})
	}
}

// archive moves items to cold.
func (h *house) archive(items ...mayfly.Item) {
	h.Helper()
	h.sweep(items...)
	h.now = max(h.now, born.Add(150*time.Minute))
	a, err := archive.New(h.real, archive.Options{Window: time.Nanosecond}) // some have ended just now
	h.must(err)
	h.acted(a.Act(context.Background(), walk.Batch{Items: h.rows(items), Now: h.now, Run: 2}))
}

func (h *house) acted(failures []walk.Failure, err error) {
	h.Helper()
	h.must(err)
	if len(failures) > 0 {
		h.Fatalf("failures: %v", failures)
	}
}

// change moves a row by hand, as somebody else would.
func (h *house) change(id mayfly.ID, c mayfly.Change) mayfly.Item {
	h.Helper()
	item := h.row(id)
	c.ID, c.From, c.Generation, c.Nonce, c.At = id, item.State, item.Generation, 99, h.now
	if c.To == 0 {
		c.To = item.State
	}
	outcomes, err := h.real.Ledger.Transition(context.Background(), []mayfly.Change{c})
	h.must(err)
	if outcomes[0].Result != store.Applied {
		h.Fatalf("%+v", outcomes[0])
	}
	return outcomes[0].Current
}

func (h *house) hold(id mayfly.ID) {
	h.change(id, mayfly.Change{Hold: mayfly.SetHold, Cause: mayfly.BySupport})
}

func (h *house) release(id mayfly.ID) {
	h.change(id, mayfly.Change{Hold: mayfly.ReleaseHold, Cause: mayfly.BySupport})
}

func (h *house) found(id mayfly.ID) store.Found {
	h.Helper()
	found, err := h.real.Ledger.Get(context.Background(), id)
	h.must(err)
	return found[0]
}

func (h *house) row(id mayfly.ID) mayfly.Item {
	h.Helper()
	f := h.found(id)
	if !f.Found {
		h.Fatalf("there is no row of %s", id)
	}
	return f.Item
}

func (h *house) rows(items []mayfly.Item) []mayfly.Item {
	h.Helper()
	rows := make([]mayfly.Item, len(items))
	for i, item := range items {
		rows[i] = h.row(item.ID)
	}
	return rows
}

func (h *house) hasBody(id mayfly.ID) bool {
	h.Helper()
	found, err := h.real.Ledger.Body(context.Background(), id)
	h.must(err)
	return found[0].Found
}

// act erases items as a reminder would.
func (h *house) act(items ...mayfly.Item) {
	h.Helper()
	h.acted(h.eraser().Act(context.Background(), walk.Batch{Items: items, Now: h.now, Repeat: true}))
}

// keys are what a tier holds.
func (h *house) keys(tier store.Blobs) []mayfly.BlobKey {
	h.Helper()
	listed, err := tier.List(context.Background(), "", "", 10_000)
	h.must(err)
	keys := make([]mayfly.BlobKey, len(listed))
	for i, l := range listed {
		keys[i] = l.Key
	}
	return keys
}

// put plants an object.
func (h *house) put(tier store.Blobs, key mayfly.BlobKey) {
	h.Helper()
	_, err := tier.Put(context.Background(), key, bytes.NewReader([]byte("planted")))
	h.must(err)
}

// traces are where item is still named or stored, beside its tombstone.
func (h *house) traces(item mayfly.Item) []string {
	h.Helper()
	ctx, all := context.Background(), []string(nil)
	note := func(what string, there bool) {
		if there {
			all = append(all, what)
		}
	}
	get := func(t store.Table, key store.Key) bool {
		found, err := h.real.Rows.Get(ctx, t, key)
		h.must(err)
		return found[0] != nil
	}
	note("body", h.hasBody(item.ID))
	note("owners", get(store.Owners, store.OwnerKey(item.Owner, item.ID)))
	if item.Media > 0 {
		note("uploads", get(store.Uploads, store.UploadKey(item.Upload)))
	}
	for name, tier := range map[string]store.Blobs{"hot": h.real.Hot, "cold": h.real.Cold} {
		for _, key := range h.keys(tier) {
			note(name+" "+string(key), bytes.Contains([]byte(key), []byte(item.ID.Short())) ||
				item.Media > 0 && bytes.Contains([]byte(key), []byte(item.Upload.Short())))
		}
	}
	return all
}

// deletions told to the log, by item.
func (h *house) told(verb mayfly.Verb) map[mayfly.ID]int {
	h.Helper()
	ctx := context.Background()
	r, err := h.real.Log.Reader(ctx, mayfly.Ends, "test")
	h.must(err)
	defer func() { h.must(r.Close()) }()
	told := map[mayfly.ID]int{}
	for {
		lag, err := r.Lag(ctx)
		h.must(err)
		if lag == 0 {
			return told
		}
		records, err := r.Next(ctx, 100)
		h.must(err)
		for _, record := range records {
			if record.Event.Verb == verb {
				told[record.Event.ID]++
			}
		}
	}
}

// reminders walks every reminder that is due at now, with the steps of e.
func (h *house) reminders(e *erase.Erase, now mayfly.Instant) error {
	h.Helper()
	ctx := context.Background()
	acts := remind.Acts{remind.Erase: e.Act, remind.Tidy: e.TidyAct, remind.Expire: nothing, remind.Archive: nothing, remind.Announce: nothing}
	for shard := range mayfly.Shards {
		s := walk.NewShard(h.set.Rows, mayfly.Shard(shard), fmt.Sprintf("test-%d", rand.Uint64()), time.Millisecond, h.origin)
		w, err := remind.New(h.set, s, acts, remind.Options{})
		h.must(err)
		for more := true; more; {
			if more, err = w.Pass(ctx, now); err != nil {
				return err
			}
		}
		if err := s.Release(ctx); err != nil {
			return err
		}
	}
	return nil
}

func nothing(context.Context, walk.Batch) ([]walk.Failure, error) { return nil, nil }

func reader(b []byte) io.Reader { return bytes.NewReader(b) }
