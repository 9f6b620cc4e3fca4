// Package profile is in charge of the switch between drivers: a profile opens
// what it is made of and returns it as a store.Set. Nothing above it knows which
// drivers are in there.
//
// A data folder is used by one process, is in one known format, and is brought up
// to date by numbered steps before any driver sees it. The package never writes
// to a folder that is not mayfly's, or is newer than it knows.
package profile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/config"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/diskfs"
	"github.com/mayflyhq/mayfly/store/diskstore"
	"github.com/mayflyhq/mayfly/store/memstore"
	"github.com/mayflyhq/mayfly/store/pebblestore"
)

// Store is an open profile.
type Store struct {
	Set   store.Set
	Meter *diskfs.Meter // what has gone to disk

	config config.Config
	ledger *pebblestore.Store
	tiers  []*diskstore.Store
	open   []io.Closer // in the order of opening

	mu        sync.Mutex
	reclaimed mayfly.Instant // when space of media was last taken back
}

// Embedded opens the data folder of cfg: everything in one process. Errors:
// Invalid (cfg), Conflict (another process uses the folder), Unsupported (the
// folder is not mayfly's, or newer than this version), Corrupt, Unavailable.
func Embedded(cfg config.Config) (*Store, error) {
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
	s, err := embeddedOn(root, ".", outside, ".", cfg)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", cfg.Data, errors.Join(err, root.Close(), outside.Close()))
	}
	s.open = append([]io.Closer{root, outside}, s.open...)
	return s, nil
}

// EmbeddedOn is Embedded in the folder dir of any file system, which stays the
// caller's; the deletion ledger is in dir-erased.
func EmbeddedOn(fs diskfs.FS, dir string, cfg config.Config) (*Store, error) {
	return embeddedOn(fs, dir, fs, dir+"-erased", cfg)
}

func embeddedOn(fs diskfs.FS, dir string, outside diskfs.FS, erased string, cfg config.Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Store{Meter: new(diskfs.Meter), config: cfg}
	fs, outside = diskfs.Metered(fs, s.Meter), diskfs.Metered(outside, s.Meter)
	f, err := openFolder(fs, dir, steps())
	if err != nil {
		return nil, err
	}
	s.open = append(s.open, f.lock)
	if err := errors.Join(s.openDrivers(f), s.openDeletions(outside, erased)); err != nil {
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

func (s *Store) openDrivers(f *folder) error {
	memory, log := s.config.Memory, slog.Default()
	s.Set.Fuse = store.NewFuse()
	ledger, err := pebblestore.Open(pebblestore.Options{
		FS: f.fs, Dir: f.path(ledgerFolder), Fuse: s.Set.Fuse, Logger: log,
		Floor: int64(s.config.Disk.Floor), CacheBytes: int64(memory.Cache), MemtableBytes: int64(memory.Memtable),
		Share: s.config.Disk.Share,
	})
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	s.ledger = ledger
	s.open = append(s.open, ledger)
	for _, name := range []string{hotFolder, coldFolder} {
		tier, err := diskstore.Open(diskstore.Options{
			FS: f.fs, Dir: f.path(name), Fuse: s.Set.Fuse, Logger: log,
			Floor: int64(s.config.Disk.Floor), InlineBytes: int(s.config.Media.Inline),
			CacheBytes: int64(memory.MediaCache), MemtableBytes: int64(memory.MediaMemtable),
		})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		s.tiers = append(s.tiers, tier)
		s.open = append(s.open, tier)
	}
	s.Set.Writer, s.Set.Ledger, s.Set.Rows, s.Set.Log = ledger.Writer(), ledger.Ledger(), ledger.Rows(), ledger.Log()
	s.Set.Hot, s.Set.Cold = s.tiers[0], s.tiers[1]
	s.Set.Limits, s.Set.Signals = memstore.NewLimits(memory.Buckets), memstore.NewSignals()
	return nil
}

// reclaimRows is how many rows one Reclaim takes back at most, so that it ends.
const reclaimRows = 100_000

// Reclaim takes space back that rows past their time and deleted media still
// take. A node calls it from time to time; no answer depends on it.
func (s *Store) Reclaim(ctx context.Context, now mayfly.Instant) error {
	if _, err := s.ledger.Reclaim(ctx, now, reclaimRows); err != nil {
		return fmt.Errorf("reclaim rows: %w", err)
	}
	if !s.mediaDue(now) {
		return nil
	}
	for _, tier := range s.tiers {
		if err := tier.Reclaim(ctx); err != nil {
			return fmt.Errorf("reclaim media: %w", err)
		}
	}
	return nil
}

func (s *Store) mediaDue(now mayfly.Instant) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reclaimed != 0 && now.Sub(s.reclaimed) < s.config.Disk.ReclaimMediaEvery {
		return false
	}
	s.reclaimed = now
	return true
}

// Close closes the drivers, the last opened first, and gives the folder up.
func (s *Store) Close() error {
	var errs []error
	for n := len(s.open) - 1; n >= 0; n-- {
		errs = append(errs, s.open[n].Close())
	}
	s.open = nil
	return errors.Join(errs...)
}
