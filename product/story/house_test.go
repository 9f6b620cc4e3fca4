package story_test

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/color"
	"image/jpeg"
	"io"
	"iter"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/archive"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/erase"
	"github.com/mayflyhq/mayfly/engine/gate"
	"github.com/mayflyhq/mayfly/engine/hydrate"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/engine/restore"
	"github.com/mayflyhq/mayfly/engine/sweep"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/product/story"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/diskstore"
	"github.com/mayflyhq/mayfly/store/memstore"
	"github.com/mayflyhq/mayfly/store/pebblestore"
)

const genesis mayfly.Instant = 1_800_000_000_000

func user(name string) mayfly.UserID { return mayfly.UserOf("test", name) }

// house is stories on the embedded store on memory, with every step of a life.
// Its time stands still until somebody moves it.
type house struct {
	testing.TB
	set     store.Set
	stories *story.Stories
	hydrate *hydrate.Hydrate
	intake  *intake.Intake
	erase   *erase.Erase
	restore *restore.Restore
	now     atomic.Int64
	doubt   atomic.Bool // the clock is in doubt: nothing is minted

	relations map[[2]mayfly.UserID]mayfly.Relation // set before anybody reads
}

func open(t testing.TB, change ...func(*story.Options)) *house {
	t.Helper()
	return openOn(t, func(*store.Set) {}, change...)
}

// openOn is open on a store that was changed before.
func openOn(t testing.TB, wrap func(*store.Set), change ...func(*story.Options)) *house {
	t.Helper()
	h := &house{TB: t, relations: map[[2]mayfly.UserID]mayfly.Relation{}}
	h.now.Store(int64(genesis))
	fs, fuse := vfs.NewMem(), store.NewFuse()
	db, err := pebblestore.Open(pebblestore.Options{FS: fs, Dir: "db", Fuse: fuse, MemtableBytes: 1 << 20, CacheBytes: 1 << 20})
	h.must(err)
	hot, err := diskstore.Open(diskstore.Options{FS: fs, Dir: "hot", Fuse: fuse, MemtableBytes: 1 << 20, CacheBytes: 1 << 20})
	h.must(err)
	cold, err := diskstore.Open(diskstore.Options{FS: fs, Dir: "cold", Fuse: fuse, MemtableBytes: 1 << 20, CacheBytes: 1 << 20})
	h.must(err)
	h.set = store.Set{Writer: db.Writer(), Ledger: db.Ledger(), Rows: db.Rows(), Log: db.Log(), Hot: hot, Cold: cold, Signals: memstore.NewSignals(), Fuse: fuse}
	wrap(&h.set)
	log, err := audit.Open(t.Context(), h.set.Rows, "test", genesis)
	h.must(err)
	h.intake, err = intake.New(h.set, intake.Options{MayMint: h.mayMint})
	h.must(err)
	g, err := gate.New(t.Context(), h.set, gate.Options{Relations: h.relation})
	h.must(err)
	h.hydrate, err = hydrate.New(h.set, hydrate.Options{})
	h.must(err)
	h.erase, err = erase.New(h.set, erase.Options{})
	h.must(err)
	h.restore, err = restore.New(h.set, log, restore.Options{Window: 90 * time.Minute, Retention: 3 * 365 * 24 * time.Hour})
	h.must(err)
	o := story.Options{Rows: h.set.Rows, Writer: h.set.Writer, Intake: h.intake, Gate: g, Hydrate: h.hydrate, Erase: h.erase}
	for _, c := range change {
		c(&o)
	}
	h.stories, err = story.New(o)
	h.must(err)
	t.Cleanup(func() {
		h.hydrate.Close()
		if err := errors.Join(g.Close(), cold.Close(), hot.Close(), db.Close()); err != nil {
			t.Error(err)
		}
	})
	return h
}

func (h *house) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

func (h *house) mayMint() error {
	if h.doubt.Load() {
		return mayfly.Errorf(mayfly.Unavailable, "the clock is in doubt")
	}
	return nil
}

func (h *house) clock() mayfly.Instant { return mayfly.Instant(h.now.Load()) }

func (h *house) at(i mayfly.Instant) { h.now.Store(int64(i)) }

func (h *house) pass(d time.Duration) { h.at(h.clock().Add(d)) }

func (h *house) relation(_ context.Context, owner, viewer mayfly.UserID) (mayfly.Relation, error) {
	return h.relations[[2]mayfly.UserID{owner, viewer}], nil
}

func (h *house) relate(owner, viewer mayfly.UserID, r mayfly.Relation) {
	h.relations[[2]mayfly.UserID{owner, viewer}] = r
}

// photo is a JPEG that differs with its shade.
func photo(t testing.TB, shade byte) []byte {
	t.Helper()
	picture := image.NewRGBA(image.Rect(0, 0, 24, 16))
	for x := range 24 {
		for y := range 16 {
			picture.Set(x, y, color.RGBA{shade, byte(x * 10), byte(y * 10), 255})
		}
	}
	var b bytes.Buffer
	if err := jpeg.Encode(&b, picture, nil); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// media are readers of bytes, one after the other.
func media(all ...[]byte) iter.Seq2[io.Reader, error] {
	return func(yield func(io.Reader, error) bool) {
		for _, b := range all {
			if !yield(bytes.NewReader(b), nil) {
				return
			}
		}
	}
}

// draft is a story of ana's with one photo.
func (h *house) draft() story.Draft {
	return story.Draft{Author: user("ana"), Caption: "sea", Audience: "everyone", Media: media(photo(h, 7))}
}

func (h *house) publish(d story.Draft) story.Story {
	h.Helper()
	s, err := h.stories.Publish(h.Context(), d, h.clock)
	h.must(err)
	return s
}

func (h *house) row(id mayfly.ID) mayfly.Item {
	h.Helper()
	found, err := h.set.Ledger.Get(h.Context(), id)
	h.must(err)
	if !found[0].Found {
		h.Fatalf("there is no row of %s", id)
	}
	return found[0].Item
}

// signalled is what every step does after it has changed a row.
func (h *house) signalled(id mayfly.ID) {
	h.Helper()
	for _, topic := range []store.Topic{store.RowChanged, store.RestoredSet} {
		h.must(h.set.Signals.Publish(h.Context(), store.Signal{Topic: topic, ID: id}))
	}
}

// sweep does what the sweep does to an item, at now.
func (h *house) sweep(id mayfly.ID) {
	h.Helper()
	s, err := sweep.New(h.set, sweep.Options{})
	h.must(err)
	_, err = s.Act(h.Context(), walk.Batch{Items: []mayfly.Item{h.row(id)}, Now: h.clock(), Run: 1})
	h.must(err)
	h.signalled(id)
}

// archive moves an item to cold storage.
func (h *house) archive(id mayfly.ID) {
	h.Helper()
	a, err := archive.New(h.set, archive.Options{})
	h.must(err)
	failed, err := a.Act(h.Context(), walk.Batch{Items: []mayfly.Item{h.row(id)}, Now: h.clock(), Run: 1})
	h.must(err)
	if len(failed) > 0 {
		h.Fatal(failed[0].Err)
	}
	h.signalled(id)
}

func (h *house) count(t store.Table, partition string) int {
	h.Helper()
	rows, err := h.set.Rows.Range(h.Context(), t, store.Range{Partition: partition, Limit: 10_000})
	h.must(err)
	return len(rows)
}

func (h *house) objects(tier store.Blobs) int {
	h.Helper()
	all, err := tier.List(h.Context(), "", "", 10_000)
	h.must(err)
	return len(all)
}
