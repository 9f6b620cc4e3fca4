package sim

import (
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
	"github.com/mayflyhq/mayfly/engine/gate"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/engine/sweep"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/diskstore"
	"github.com/mayflyhq/mayfly/store/pebblestore"
	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/fixture"
	"github.com/mayflyhq/mayfly/test/tables"
)

// genesis is when every simulation begins: not at the beginning of a minute.
const genesis mayfly.Instant = 1_800_000_017_345

// settle is how far the watermarks of an engine trail: the default of the walks.
const settle = 15 * time.Second

// plan says how an engine is built.
type plan struct {
	fs        vfs.FS
	random    io.Reader
	floor     int64
	holder    string                    // of the leases; "engine" if empty
	shards    int                       // that are walked; all if 0
	relations gate.Relations            // may be nil
	cacheRows int                       // of the gate
	mayMint   func() error              // of the intake; may be nil
	now       func() mayfly.Instant     // of the intake; may be nil
	wrap      func(store.Set) store.Set // what stands between the engine and the store; may be nil
}

// engine is the whole engine on one disk.
type engine struct {
	plan    plan
	db      *pebblestore.Store
	hot     *diskstore.Store
	raw     store.Set // the store as it is
	set     store.Set // the store as the engine sees it
	signals *fixture.Signals
	uploads *upload.Uploads
	intake  *intake.Intake
	gate    *gate.Gate
	walkers []*walk.Walker
}

// noTier is an empty tier.
type noTier struct{ store.Blobs }

func (noTier) List(context.Context, mayfly.BlobKey, mayfly.BlobKey, int) ([]store.Listed, error) {
	return nil, nil
}

// openSet opens the embedded store in a folder of fs. The cold tier is empty:
// nothing here writes to it.
func openSet(fs vfs.FS, floor int64) (*pebblestore.Store, *diskstore.Store, store.Set, error) {
	fuse := store.NewFuse()
	db, err := pebblestore.Open(pebblestore.Options{
		Tables: tables.All(), FS: fs, Dir: "db", Fuse: fuse, Floor: floor, CacheBytes: 256 << 10, MemtableBytes: 64 << 10, Scheduler: fixture.Quiet(),
	})
	if err != nil {
		return nil, nil, store.Set{}, err
	}
	hot, err := openTier(fs, "hot", fuse, floor)
	if err != nil {
		return nil, nil, store.Set{}, errors.Join(err, db.Close())
	}
	return db, hot, store.Set{Writer: db.Writer(), Ledger: db.Ledger(), Rows: db.Rows(), Log: db.Log(), Hot: hot, Cold: noTier{}, Fuse: fuse, KV: storetest.NewKVModel()}, nil
}

func openTier(fs vfs.FS, dir string, fuse *store.Fuse, floor int64) (*diskstore.Store, error) {
	return diskstore.Open(diskstore.Options{
		FS: fs, Dir: dir, Fuse: fuse, Floor: floor, InlineBytes: 1 << 10, CacheBytes: 256 << 10, MemtableBytes: 256 << 10, Scheduler: fixture.Quiet(),
	})
}

// openEngine builds an engine at now.
func openEngine(ctx context.Context, p plan, now mayfly.Instant) (_ *engine, err error) {
	if p.holder == "" {
		p.holder = "engine"
	}
	if p.shards == 0 {
		p.shards = mayfly.Shards
	}
	h := &engine{plan: p, signals: &fixture.Signals{}}
	if h.db, h.hot, h.raw, err = openSet(p.fs, p.floor); err != nil {
		return nil, err
	}
	h.raw.Signals = h.signals
	h.set = h.raw
	if p.wrap != nil {
		h.set = p.wrap(h.raw)
	}
	if err = h.assemble(ctx, now); err != nil {
		return nil, errors.Join(err, h.close())
	}
	return h, nil
}

func (h *engine) assemble(ctx context.Context, now mayfly.Instant) (err error) {
	if h.uploads, err = upload.New(h.set, upload.Options{Random: h.plan.random, MayMint: h.plan.mayMint}); err != nil {
		return err
	}
	if h.intake, err = intake.New(h.set, intake.Options{Random: h.plan.random, MayMint: h.plan.mayMint, Now: h.plan.now}); err != nil {
		return err
	}
	if h.gate, err = gate.New(ctx, h.set, gate.Options{Relations: h.plan.relations, CacheRows: h.plan.cacheRows}); err != nil {
		return err
	}
	h.walkers, err = newWalkers(ctx, h.set, h.plan.holder, h.plan.shards, now)
	return err
}

// newWalkers is a sweep of that many shards for holder.
func newWalkers(ctx context.Context, set store.Set, holder string, shards int, now mayfly.Instant) ([]*walk.Walker, error) {
	origin, err := walk.Origin(ctx, set.Rows, now)
	if err != nil {
		return nil, err
	}
	o := walk.Options{Holder: holder, Settle: settle, Page: 4, Batch: 3, Unpaced: true}
	var walkers []*walk.Walker
	s, err := sweep.New(set, sweep.Options{})
	if err != nil {
		return nil, err
	}
	for number := range mayfly.Shard(shards) {
		w, err := walk.New(set, s.Walk(), walk.NewShard(set.Rows, number, holder, 5*time.Second, origin), o)
		if err != nil {
			return nil, err
		}
		walkers = append(walkers, w)
	}
	return walkers, nil
}

// pass lets every walker walk up to now.
func (h *engine) pass(ctx context.Context, now mayfly.Instant) error {
	return passAll(ctx, h.walkers, now)
}

func passAll(ctx context.Context, walkers []*walk.Walker, now mayfly.Instant) error {
	var errs []error
	for _, w := range walkers {
		for more := true; more; {
			var err error
			if more, err = w.Pass(ctx, now); err != nil {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// close closes the engine as a process that ends in good order does.
func (h *engine) close() error {
	var errs []error
	if h.gate != nil {
		errs = append(errs, h.gate.Close())
	}
	return errors.Join(append(errs, h.hot.Close(), h.db.Close())...)
}

// mustOpen builds an engine that ends with the test.
func mustOpen(t testing.TB, p plan, now mayfly.Instant) *engine {
	t.Helper()
	h, err := openEngine(t.Context(), p, now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.close(); err != nil && h.raw.Fuse.Err() == nil {
			t.Error(err)
		}
	})
	return h
}

// seed is the seed of a test: printed, and taken back from MAYFLY_SEED.
func seed(t testing.TB) uint64 {
	t.Helper()
	n := rand.Uint64()
	if text := os.Getenv("MAYFLY_SEED"); text != "" {
		var err error
		if n, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("MAYFLY_SEED: %v", err)
		}
	}
	t.Logf("MAYFLY_SEED=%d", n)
	return n
}

func seeded(n uint64) *rand.Rand { return rand.New(rand.NewPCG(n, 0)) }

// randomBits is what ids are minted from, the same for a seed.
func randomBits(n uint64) io.Reader {
	var key [32]byte
	copy(key[:], fmt.Sprint(n))
	return rand.NewChaCha8(key)
}

// fewShards makes every id fall into the first n shards, a power of two: fewer
// walkers, and batches that have several items.
type fewShards struct {
	io.Reader
	n byte
}

func (r fewShards) Read(p []byte) (int, error) {
	n, err := io.ReadFull(r.Reader, p)
	p[7] = p[7]&^(mayfly.Shards-1) | p[7]&(r.n-1)
	return n, err
}

// long says whether the long forms of the proofs are asked for.
