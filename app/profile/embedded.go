package profile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/diskfs"
	"github.com/mayflyhq/mayfly/store/diskstore"
	"github.com/mayflyhq/mayfly/store/loop"
	"github.com/mayflyhq/mayfly/store/memstore"
	"github.com/mayflyhq/mayfly/store/pebblestore"
)

// Embedded opens the data folder of cfg: everything in one process. Errors:
// Invalid (cfg), Conflict (another process uses the folder), Unsupported (the
// folder is not mayfly's, or newer than this version), Corrupt, Unavailable.
func Embedded(cfg config.Config, tables []store.Table) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	root, err := diskfs.Root(cfg.Data)
	if err != nil {
		return nil, err
	}
	outside, err := diskfs.Root(cfg.DeletionsFolder())
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	s, err := embeddedOn(root, ".", outside, ".", cfg, tables)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", cfg.Data, errors.Join(err, root.Close(), outside.Close()))
	}
	s.open = append([]io.Closer{root, outside}, s.open...)
	return s, nil
}

// EmbeddedOn is Embedded in the folder dir of any file system, which stays the
// caller's; the deletion ledger is in dir-erased.
func EmbeddedOn(fs diskfs.FS, dir string, cfg config.Config, tables []store.Table) (*Store, error) {
	return embeddedOn(fs, dir, fs, dir+"-erased", cfg, tables)
}

func embeddedOn(fs diskfs.FS, dir string, outside diskfs.FS, erased string, cfg config.Config, tables []store.Table) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Store{Meter: new(diskfs.Meter), every: cfg.Disk.ReclaimMediaEvery}
	fs, outside = diskfs.Metered(fs, s.Meter), diskfs.Metered(outside, s.Meter)
	f, err := openFolder(fs, dir, steps())
	if err != nil {
		return nil, err
	}
	s.open = append(s.open, f.lock)
	if err := errors.Join(s.openDrivers(f, cfg, tables), s.openDeletions(outside, erased)); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// The deletion ledger has a few bytes for each erased account.
const (
	deletionsMemtable = 256 << 10
	deletionsCache    = 1 << 20
)

func (s *Store) openDeletions(fs diskfs.FS, dir string) error {
	if s.Set.Fuse == nil || s.Set.Hot == nil {
		return nil // the drivers before it could not be opened
	}
	ledger, err := diskstore.Open(diskstore.Options{
		FS: fs, Dir: dir, Fuse: s.Set.Fuse, Logger: slog.Default(), MemtableBytes: deletionsMemtable, CacheBytes: deletionsCache,
	})
	if err != nil {
		return fmt.Errorf("deletion ledger: %w", err)
	}
	s.open = append(s.open, ledger)
	s.Set.Deletions = ledger
	return nil
}

func (s *Store) openDrivers(f *folder, cfg config.Config, tables []store.Table) error {
	memory, log := cfg.Memory, slog.Default()
	s.Set.Fuse = store.NewFuse()
	ledger, err := pebblestore.Open(pebblestore.Options{
		FS: f.fs, Dir: f.path(ledgerFolder), Fuse: s.Set.Fuse, Tables: tables, Logger: log,
		Floor: int64(cfg.Disk.Floor), CacheBytes: int64(memory.Cache), MemtableBytes: int64(memory.Memtable),
		Share: cfg.Disk.Share,
	})
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	s.open = append(s.open, ledger)
	s.rows = func(ctx context.Context, now mayfly.Instant) error {
		return reclaimRows(ctx, ledger, now, cfg.Disk.ReclaimEvery/2)
	}
	var tiers []*diskstore.Store
	for _, name := range []string{hotFolder, coldFolder} {
		tier, err := diskstore.Open(diskstore.Options{
			FS: f.fs, Dir: f.path(name), Fuse: s.Set.Fuse, Logger: log,
			Floor: int64(cfg.Disk.Floor), InlineBytes: int(cfg.Media.Inline),
			CacheBytes: int64(memory.MediaCache), MemtableBytes: int64(memory.MediaMemtable),
		})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		tiers = append(tiers, tier)
		s.open = append(s.open, tier)
		s.media = append(s.media, func(ctx context.Context, _ mayfly.Instant) error { return tier.Reclaim(ctx) })
	}
	s.erase = eraser{every: cfg.Disk.EraseRowsEvery, last: ledger.LastErased}
	for _, tier := range tiers {
		s.erase.do = append(s.erase.do, func(ctx context.Context, _ mayfly.Instant) error { return tier.EraseDeleted(ctx) })
	}
	s.erase.do = append(s.erase.do, ledger.EraseDeleted)
	s.figures = func() (f Figures) {
		for _, tier := range tiers {
			t := tier.Figures()
			f.StuckFiles, f.UnerasedBytes = f.StuckFiles+t.StuckFiles, f.UnerasedBytes+t.UnerasedBytes
		}
		f.ReclaimLag = ledger.Figures().ReclaimLag
		f.RowsErased, _ = ledger.LastErased(context.Background()) // 0 tells enough
		return f
	}
	s.Set.Writer, s.Set.Ledger, s.Set.Rows, s.Set.Log = ledger.Writer(), ledger.Ledger(), ledger.Rows(), ledger.Log()
	s.Set.Hot, s.Set.Cold = tiers[0], tiers[1]
	s.Set.Limits, s.Set.Signals = memstore.NewLimits(memory.Buckets), memstore.NewSignals()
	return s.openKV(f, cfg)
}

// reclaimRows reclaims rows until none is due or budget is used up: the next turn goes
// on, and the figures tell how far it is behind.
func reclaimRows(ctx context.Context, ledger *pebblestore.Store, now mayfly.Instant, budget time.Duration) error {
	for spent := time.Duration(0); spent < budget; {
		n := 0
		var err error
		spent += loop.Measure(func() { n, err = ledger.Reclaim(ctx, now, reclaimTurn) })
		if err != nil || n < reclaimTurn {
			return err
		}
	}
	return nil
}

// reclaimTurn is how many rows are reclaimed between two looks at the time.
const reclaimTurn = 10_000
