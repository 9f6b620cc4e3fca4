package diskstore

import (
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// Options say where a tier is and how much of the machine it may take. In
// memory that is CacheBytes + 4 × MemtableBytes, and 3 × InlineBytes for each
// Put under way, however many objects there are and however big they are.
type Options struct {
	FS   vfs.FS // where the folder is
	Dir  string // the folder of the tier
	Fuse *store.Fuse

	Floor         int64 // Put is refused while less is free, in bytes; 0 is no floor
	InlineBytes   int   // up to this size an object is a value and not a file; 64 KiB if 0
	CacheBytes    int64 // of blocks read; 8 MiB if 0
	MemtableBytes int64 // of small objects before they go to a table; 8 MiB if 0

	Logger *slog.Logger // for what the operator should know; none if nil
}

const (
	kibibyte        = 1 << 10
	mebibyte        = 1 << 20
	defaultInline   = 64 * kibibyte
	defaultCache    = 8 * mebibyte
	defaultMemtable = 8 * mebibyte
	minMemtable     = 256 * kibibyte
	maxMemtable     = 256 * mebibyte
	memtables       = 4
	bitsPerKey      = 10
)

func (o Options) complete() (Options, error) {
	if o.Fuse == nil {
		o.Fuse = store.NewFuse()
	}
	if o.InlineBytes == 0 {
		o.InlineBytes = defaultInline
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = defaultCache
	}
	if o.MemtableBytes == 0 {
		o.MemtableBytes = defaultMemtable
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case o.FS == nil || o.Dir == "":
		return o, mayfly.Errorf(mayfly.Invalid, "a tier needs a file system and a folder")
	case o.Floor < 0:
		return o, mayfly.Errorf(mayfly.Invalid, "the free-space floor is %d bytes", o.Floor)
	case o.CacheBytes < 0:
		return o, mayfly.Errorf(mayfly.Invalid, "the cache is %d bytes", o.CacheBytes)
	case o.MemtableBytes < minMemtable || o.MemtableBytes > maxMemtable:
		return o, mayfly.Errorf(mayfly.Invalid, "a memtable of %d bytes is not between %d and %d", o.MemtableBytes, minMemtable, maxMemtable)
	case o.InlineBytes < 0 || int64(o.InlineBytes) > o.MemtableBytes/4:
		return o, mayfly.Errorf(mayfly.Invalid, "%d bytes inline are not between 0 and a quarter of a memtable", o.InlineBytes)
	}
	return o, nil
}

// Values of this size and more are kept apart from their keys, so that
// compactions move keys only.
const separatedBytes = 512

// Values are moved for the sake of space only: once this share of them is dead,
// from files that are at least this old. Objects die in the order of their
// birth, so most files are wholly dead before that.
const (
	deadShare = 0.3
	youngFile = time.Minute
)

// neverForLocality is a depth that a table of ours does not reach. Pebble would
// otherwise write values again to bring neighbours together, which nobody here
// reads together.
const neverForLocality = 1000

func (s *Store) pebbleOptions() *pebble.Options {
	o := &pebble.Options{
		FS:                          &guardFS{FS: s.opts.FS, fuse: s.opts.Fuse},
		FormatMajorVersion:          pebble.FormatValueSeparation, // fixed: a newer one is a step of its own
		CacheSize:                   s.opts.CacheBytes,
		MemTableSize:                uint64(s.opts.MemtableBytes),
		MemTableStopWritesThreshold: memtables,
		L0CompactionThreshold:       4,
		L0StopWritesThreshold:       32,
		MaxOpenFiles:                500,
		Logger:                      &logger{fuse: s.opts.Fuse, log: s.opts.Logger},
		EventListener:               listener(s.opts.Logger),
		CompactionConcurrencyRange:  func() (int, int) { return 1, 1 },
	}
	o.Experimental.ReadSamplingMultiplier = -1 // no compactions because of reads
	o.Experimental.ValueSeparationPolicy = func() pebble.ValueSeparationPolicy {
		return pebble.ValueSeparationPolicy{
			Enabled:               true,
			MinimumSize:           separatedBytes,
			MaxBlobReferenceDepth: neverForLocality,
			RewriteMinimumAge:     youngFile,
			TargetGarbageRatio:    deadShare,
		}
	}
	for i := range o.Levels {
		l := &o.Levels[i]
		l.BlockSize = 16 * kibibyte
		l.FilterPolicy = bloom.FilterPolicy(bitsPerKey)
		l.Compression = func() *sstable.CompressionProfile { return sstable.NoCompression } // media is compressed
	}
	return o
}
