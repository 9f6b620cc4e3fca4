package intake_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/diskstore"
	"github.com/mayflyhq/mayfly/store/memstore"
	"github.com/mayflyhq/mayfly/store/pebblestore"
)

const start mayfly.Instant = 1_800_000_017_345

var (
	ana = mayfly.UserOf("test", "ana")
	ben = mayfly.UserOf("test", "ben")
)

// house is the embedded store on memory, in whose way things come.
type house struct {
	testing.TB
	set    store.Set // as the intake sees it
	real   store.Set
	mu     sync.Mutex
	trail  []string // what was written, in order
	commit func(ctx context.Context, b *store.Batch) error
	swap   func() (lost, lands bool)
}

func open(t testing.TB) *house {
	t.Helper()
	fs, fuse := vfs.NewMem(), store.NewFuse()
	db, err := pebblestore.Open(pebblestore.Options{FS: fs, Dir: "db", Fuse: fuse, MemtableBytes: 1 << 20, CacheBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	hot, err := diskstore.Open(diskstore.Options{FS: fs, Dir: "hot", Fuse: fuse, MemtableBytes: 1 << 20, CacheBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := hot.Close(); err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	h := &house{TB: t, real: store.Set{
		Writer: db.Writer(), Ledger: db.Ledger(), Rows: db.Rows(), Log: db.Log(), Hot: hot, Signals: memstore.NewSignals(), Fuse: fuse,
	}}
	h.set = h.real
	h.set.Writer, h.set.Rows, h.set.Hot = writer{h}, rows{h.real.Rows, h}, blobs{h.real.Hot, h}
	return h
}

func (h *house) note(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.trail = append(h.trail, fmt.Sprintf(format, args...))
}

type writer struct{ h *house }

func (w writer) Commit(ctx context.Context, b *store.Batch) error {
	commit := w.h.real.Writer.Commit
	if w.h.commit != nil {
		commit = w.h.commit
	}
	err := commit(ctx, b)
	for n, s := range b.Stages() {
		for _, p := range s.Puts {
			w.h.note("%d put %s", n, p.Table)
		}
		for _, i := range s.Inserts {
			w.h.note("%d insert %s", n, i.Item.Product)
		}
		for _, e := range s.Events {
			w.h.note("%d append %s", n, e.Type())
		}
	}
	return err
}

type rows struct {
	store.Rows
	h *house
}

func (r rows) Swap(ctx context.Context, t store.Table, key store.Key, old, new []byte, at mayfly.Instant) (bool, []byte, error) {
	lost, lands := false, true
	if r.h.swap != nil {
		lost, lands = r.h.swap()
	}
	var swapped bool
	var current []byte
	var err error
	if lands {
		swapped, current, err = r.Rows.Swap(ctx, t, key, old, new, at)
		r.h.note("swap %s", t)
	}
	if lost {
		return false, nil, mayfly.Errorf(mayfly.Unknown, "the answer was lost")
	}
	return swapped, current, err
}

type blobs struct {
	store.Blobs
	h *house
}

func (b blobs) Put(ctx context.Context, key mayfly.BlobKey, r io.Reader) (store.Object, error) {
	o, err := b.Blobs.Put(ctx, key, r)
	b.h.note("medium")
	return o, err
}

func (h *house) intake(o intake.Options) *intake.Intake {
	h.Helper()
	in, err := intake.New(h.set, o)
	if err != nil {
		h.Fatal(err)
	}
	return in
}

func lifetime(t testing.TB, d time.Duration) mayfly.Lifetime {
	t.Helper()
	l, err := mayfly.LifetimeOf(d)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// draft is a story of ana's for a day.
func (h *house) draft() intake.Draft {
	return intake.Draft{
		Owner: ana, Product: mayfly.Story, Fate: mayfly.Archive, Audience: mayfly.Everyone, Lifetime: lifetime(h, 24*time.Hour), Text: "sea",
	}
}

func (h *house) upload(in *intake.Intake, owner mayfly.UserID, now mayfly.Instant, media ...string) *intake.Upload {
	h.Helper()
	u, err := in.Begin(owner, now)
	if err != nil {
		h.Fatal(err)
	}
	for _, m := range media {
		if _, err := u.Add(h.Context(), bytes.NewReader([]byte(m))); err != nil {
			h.Fatal(err)
		}
	}
	return u
}

func (h *house) publish(in *intake.Intake, d intake.Draft, now mayfly.Instant) intake.Published {
	h.Helper()
	p, err := in.Publish(h.Context(), d, now)
	if err != nil {
		h.Fatal(err)
	}
	return p
}

// row is the row of an item, and whether it is there.
func (h *house) row(id mayfly.ID) (mayfly.Item, bool) {
	h.Helper()
	found, err := h.real.Ledger.Get(context.WithoutCancel(h.Context()), id)
	if err != nil {
		h.Fatal(err)
	}
	return found[0].Item, found[0].Found
}

// owned are ana's items by the owner index.
func (h *house) owned() (ids []mayfly.ID) {
	h.Helper()
	found, err := h.real.Rows.Range(h.Context(), store.Owners, store.Range{Partition: string(ana[:]), Limit: 100})
	if err != nil {
		h.Fatal(err)
	}
	for _, row := range found {
		ids = append(ids, mayfly.ID([]byte(row.Clustering)))
	}
	return ids
}

// born are the items that there are, by the shards of a day's deadline minute.
func (h *house) born(minute mayfly.Minute) (items []mayfly.Item) {
	h.Helper()
	for shard := range mayfly.Shard(mayfly.Shards) {
		page, err := h.real.Ledger.Walk(h.Context(), store.Stretch{Minute: minute, Shard: shard, To: (minute + 1).Start()}, 100)
		if err != nil {
			h.Fatal(err)
		}
		items = append(items, page...)
	}
	return items
}

// objects are the keys in hot storage.
func (h *house) objects() (keys []mayfly.BlobKey) {
	h.Helper()
	listed, err := h.real.Hot.List(h.Context(), "", "", 1000)
	if err != nil {
		h.Fatal(err)
	}
	for _, l := range listed {
		keys = append(keys, l.Key)
	}
	return keys
}

// events are the births in the log.
func (h *house) events() (events []mayfly.Event) {
	h.Helper()
	r, err := h.real.Log.Reader(h.Context(), mayfly.Births, "test")
	if err != nil {
		h.Fatal(err)
	}
	defer r.Close()
	for {
		lag, err := r.Lag(h.Context())
		if err != nil {
			h.Fatal(err)
		}
		if lag == 0 {
			return events
		}
		records, err := r.Next(h.Context(), 1000)
		if err != nil {
			h.Fatal(err)
		}
		for _, record := range records {
			events = append(events, record.Event)
		}
	}
}

// reminders are those of an item that are due at an instant.
func (h *house) reminders(id mayfly.ID, at mayfly.Instant) (all []remind.Reminder) {
	h.Helper()
	found, err := h.real.Rows.Range(h.Context(), store.Reminders, store.Range{Partition: remind.Partition(at.Minute(), id.Shard()), Limit: 100})
	if err != nil {
		h.Fatal(err)
	}
	for _, row := range found {
		r, err := remind.Read(row)
		if err != nil {
			h.Fatal(err)
		}
		if r.ID == id && r.Due == at {
			all = append(all, r)
		}
	}
	return all
}
