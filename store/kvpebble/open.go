package kvpebble

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/diskfs"
	"github.com/mayflyhq/mayfly/store/loop"
)

// Options say where the database is, how much memory it uses (CacheBytes + 3 ×
// MemtableBytes, however many entries it holds) and when a write is durable.
type Options struct {
	FS   vfs.FS      // the file system of Dir
	Dir  string      // the folder of the database
	Fuse *store.Fuse // blown when a durable write fails; a new one if nil

	Sync          Sync
	Floor         int64   // groups that write values are refused while fewer bytes are free; 0 means no floor
	CacheBytes    int64   // caches of entries and of blocks; 64 MiB if 0
	MemtableBytes int64   // size of a memtable; 16 MiB if 0
	Share         float64 // part of a core that flushes and compactions use while there is no backlog; not paced if 0

	Scheduler pebble.CompactionScheduler // of compactions; Pebble's, which has a timer of 100 ms, if nil

	Logger *slog.Logger // for what an operator should know; none if nil
}

// Sync says when a write is durable.
type Sync uint8

// The settings of Sync.
const (
	Always   Sync = iota // before it is acknowledged
	EverySec             // within a second; what was acknowledged in the last second may be lost by a crash
)

// String returns the setting as the configuration spells it.
func (s Sync) String() string {
	if s == EverySec {
		return "everysec"
	}
	return "always"
}

const (
	mebibyte        = 1 << 20
	defaultMemtable = 16 * mebibyte
	defaultCache    = 64 * mebibyte
)

// rowsShare is how many fifths of the cache hold entries; the rest holds blocks.
const rowsShare = 3

// Store is an open database. It implements store.KV.
type Store struct {
	opts     Options
	base     *diskfs.Database
	fuse     *store.Fuse
	db       *pebble.DB
	stripes  stripes
	rows     rows
	guard    guard
	spaces   spaces
	versions versions
	reclaims reclaims
	commits  commits
	syncs    *loop.Loop // of EverySec
	dirty    atomic.Bool
}

var _ store.KV = (*Store)(nil)

// Format is the version of all keys and values in the database.
const Format = 2

// Open opens the database in opts.Dir and creates it if there is none. It refuses
// an unknown format with an error of kind Unsupported.
func Open(opts Options) (*Store, error) {
	if opts.MemtableBytes == 0 {
		opts.MemtableBytes = defaultMemtable
	}
	if opts.CacheBytes == 0 {
		opts.CacheBytes = defaultCache
	}
	rowBytes := max(opts.CacheBytes, 0) / 5 * rowsShare
	if opts.Floor < 0 {
		return nil, mayfly.Errorf(mayfly.Invalid, "the free-space floor of %d bytes is negative", opts.Floor)
	}
	s := &Store{opts: opts}
	s.stripes.init()
	s.rows.init(rowBytes)
	s.reclaims.garbage = maxGarbage
	var err error
	s.base, err = diskfs.Open(diskfs.Settings{
		FS: opts.FS, Dir: opts.Dir, Fuse: opts.Fuse, Format: Format, FormatKey: []byte{metaPrefix, metaFormat},
		CacheBytes: opts.CacheBytes - rowBytes, MemtableBytes: opts.MemtableBytes, Share: opts.Share, Scheduler: opts.Scheduler, Logger: opts.Logger,
	}, setOptions, func(db *pebble.DB) error {
		if err := s.spaces.load(db); err != nil {
			return err
		}
		return s.versions.open(db)
	})
	if err != nil {
		return nil, err
	}
	s.db, s.fuse = s.base.DB, s.base.Fuse
	s.startCommits()
	if opts.Sync == EverySec {
		s.syncs = loop.Start(context.Background(), loop.Options{Name: "kv sync", First: time.Second, Every: time.Second}, s.syncAll)
	}
	return s, nil
}

// setOptions chooses for small entries that are read at random, most of which expire.
func setOptions(o *pebble.Options) {
	o.Merger = counter()
	for i := range o.TargetFileSizes {
		o.TargetFileSizes[i] = 4 * mebibyte << min(i, 2)
	}
	for i := range o.Levels {
		o.Levels[i].BlockSize = 4 << 10
	}
}

// versions numbers the writes of all namespaces, so that the version of a key grows
// over deletes and restarts. The database holds a number that none has reached yet,
// which is raised when it comes near.
type versions struct {
	last atomic.Uint64
	mu   sync.Mutex
	mark uint64
}

const versionBlock = 1 << 31

func (v *versions) open(db *pebble.DB) error {
	value, closer, err := db.Get([]byte{metaPrefix, metaVersion})
	switch {
	case errors.Is(err, pebble.ErrNotFound):
	case err != nil:
		return err
	case len(value) != 8:
		return errors.Join(mayfly.Errorf(mayfly.Corrupt, "the mark of versions has %d bytes, not 8", len(value)), closer.Close())
	default:
		v.mark = binary.BigEndian.Uint64(value)
		if err := closer.Close(); err != nil {
			return err
		}
	}
	v.last.Store(v.mark)
	return v.raise(db)
}

// raise makes the next block of versions usable.
func (v *versions) raise(db *pebble.DB) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.last.Load()+versionBlock/2 < v.mark {
		return nil
	}
	v.mark += versionBlock
	return db.Set([]byte{metaPrefix, metaVersion}, binary.BigEndian.AppendUint64(nil, v.mark), pebble.Sync)
}

// take returns the version before the first of n new ones. The caller that uses the
// middle of a block makes the next one durable, long before any caller gets there.
func (v *versions) take(db *pebble.DB, n int) (uint64, error) {
	end := v.last.Add(uint64(n))
	if first := end - uint64(n); first/(versionBlock/2) != end/(versionBlock/2) {
		if err := v.raise(db); err != nil {
			return 0, err
		}
	}
	return end - uint64(n), nil
}

// readError gives an error of an operation its kind; what names the operation.
func readError(what string, err error) error { return diskfs.ReadError(what, err) }

// Fuse returns the fuse that the store was opened with, or the one that it made.
func (s *Store) Fuse() *store.Fuse { return s.fuse }

// enter begins a call; a call that entered must call leave.
func (s *Store) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return mayfly.Wrap(mayfly.Unavailable, err, "")
	}
	return s.base.Enter()
}

func (s *Store) leave() { s.base.Leave() }

// Close waits for the calls under way, makes everything durable and closes the
// database. If the fuse has blown it leaves what Pebble does not end to the end of the
// process, and returns the fuse's error.
func (s *Store) Close() error {
	return s.base.Close(func() error {
		s.stopCommits()
		if s.syncs == nil {
			return nil
		}
		_ = s.syncs.Stop(context.Background()) // it ends: no deadline
		return s.syncAll(context.Background())
	})
}
