package pebblestore

import (
	"log/slog"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/diskfs"
)

// Options say where and how large the database is. What it takes in memory is
// CacheBytes + 3 × MemtableBytes, however many items it holds.
type Options struct {
	FS   vfs.FS // where the folder is
	Dir  string // the folder of the database
	Fuse *store.Fuse

	Tables []store.Table // what is stored beside items; another table is refused

	Floor         int64 // births are refused while less is free, in bytes; 0 is no floor
	CacheBytes    int64 // of blocks read; 64 MiB if 0
	MemtableBytes int64 // of writes before they go to a table; 32 MiB if 0

	// Share is how much of a core flushes and compactions use while there is no
	// hurry, so that reads do not wait behind them; all of it if 0.
	Share float64

	Logger *slog.Logger // for what the operator should know; none if nil
}

const (
	mebibyte        = 1 << 20
	defaultCache    = 64 * mebibyte
	defaultMemtable = 32 * mebibyte
	minMemtable     = 64 << 10
	maxMemtable     = 1 << 30
	memtables       = 3
	bitsPerKey      = 10
)

func (o Options) complete() (Options, error) {
	if o.Fuse == nil {
		o.Fuse = store.NewFuse()
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
		return o, mayfly.Errorf(mayfly.Invalid, "the database needs a file system and a folder")
	case o.Floor < 0:
		return o, mayfly.Errorf(mayfly.Invalid, "the free-space floor is %d bytes", o.Floor)
	case o.Share < 0 || o.Share > 1:
		return o, mayfly.Errorf(mayfly.Invalid, "flushes and compactions cannot use %g of a core", o.Share)
	case o.CacheBytes < 0:
		return o, mayfly.Errorf(mayfly.Invalid, "the cache is %d bytes", o.CacheBytes)
	case o.MemtableBytes < minMemtable || o.MemtableBytes > maxMemtable:
		return o, mayfly.Errorf(mayfly.Invalid, "a memtable of %d bytes is not between %d and %d", o.MemtableBytes, minMemtable, maxMemtable)
	}
	return o, nil
}

// pebbleOptions are chosen for many small durable commits, bursts of rewritten
// rows, and reads that do not feel them: docs/decisions/0003.
func (s *Store) pebbleOptions() *pebble.Options {
	o := &pebble.Options{
		FS:                          s.fs,
		FormatMajorVersion:          pebble.FormatTableFormatV6,                         // fixed: a newer one is a step of its own
		CacheSize:                   s.opts.CacheBytes + memtables*s.opts.MemtableBytes, // Pebble takes the memtables out of it
		MemTableSize:                uint64(s.opts.MemtableBytes),
		MemTableStopWritesThreshold: memtables,
		L0CompactionThreshold:       2,
		L0StopWritesThreshold:       32,
		LBaseMaxBytes:               64 * mebibyte,
		MaxOpenFiles:                1000,
		Logger:                      diskfs.Logger(s.fuse, s.opts.Logger),
		EventListener:               s.trouble.Listener(s.opts.Logger),
		CompactionConcurrencyRange:  func() (int, int) { return 1, 1 },
	}
	o.Experimental.ReadSamplingMultiplier = -1 // no compactions because of reads
	o.FlushSplitBytes = 2 * mebibyte
	o.TargetFileSizes[0] = 4 * mebibyte
	for i := range o.Levels {
		l := &o.Levels[i]
		l.FilterPolicy = pebble.NoFilterPolicy
		l.BlockSize = 16 << 10
		l.IndexBlockSize = 64 << 10
		if i < len(o.Levels)-1 { // a lookup never asks the last level's
			l.FilterPolicy = bloom.FilterPolicy(bitsPerKey)
		}
		l.Compression = func() *sstable.CompressionProfile { return sstable.SnappyCompression }
	}
	return o
}
