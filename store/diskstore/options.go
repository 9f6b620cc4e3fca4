package diskstore

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

// Options are the folder of a tier and its limits. The tier uses CacheBytes +
// 3 × MemtableBytes of memory, and up to InlineBytes or 160 KiB for each Put in
// progress, whatever the number and size of objects.
type Options struct {
	FS   vfs.FS // where the folder is
	Dir  string // the folder of the tier
	Fuse *store.Fuse

	Floor         int64 // Put is refused while less is free, in bytes; 0 is no floor
	InlineBytes   int   // up to this size an object shares a volume with others; 64 KiB if 0
	VolumeBytes   int64 // of a volume; 64 MiB if 0
	CacheBytes    int64 // of the index, as it is read; 8 MiB if 0
	MemtableBytes int64 // of the index, before it goes to a table; 4 MiB if 0

	Scheduler pebble.CompactionScheduler // of compactions; Pebble's, which has a timer of 100 ms, if nil

	Logger *slog.Logger // for what the operator should know; none if nil
}

const (
	kibibyte        = 1 << 10
	mebibyte        = 1 << 20
	defaultInline   = 64 * kibibyte
	maxInline       = mebibyte
	defaultVolume   = 64 * mebibyte
	defaultCache    = 8 * mebibyte
	defaultMemtable = 4 * mebibyte
	minMemtable     = 64 * kibibyte
	maxMemtable     = 256 * mebibyte
	memtables       = 3
	bitsPerKey      = 10
)

func (o Options) complete() (Options, error) {
	if o.Fuse == nil {
		o.Fuse = store.NewFuse()
	}
	if o.InlineBytes == 0 {
		o.InlineBytes = defaultInline
	}
	if o.VolumeBytes == 0 {
		o.VolumeBytes = defaultVolume
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
		return o, mayfly.Errorf(mayfly.Invalid, "file system and folder of a tier are required")
	case o.Floor < 0:
		return o, mayfly.Errorf(mayfly.Invalid, "invalid free-space floor of %d bytes", o.Floor)
	case o.CacheBytes < 0:
		return o, mayfly.Errorf(mayfly.Invalid, "invalid cache size of %d bytes", o.CacheBytes)
	case o.MemtableBytes < minMemtable || o.MemtableBytes > maxMemtable:
		return o, mayfly.Errorf(mayfly.Invalid, "invalid memtable size of %d bytes: must be between %d and %d", o.MemtableBytes, minMemtable, maxMemtable)
	case o.InlineBytes < 0 || o.InlineBytes > maxInline:
		return o, mayfly.Errorf(mayfly.Invalid, "invalid inline size of %d bytes: must be between 0 and %d", o.InlineBytes, maxInline)
	case o.VolumeBytes < int64(o.InlineBytes):
		return o, mayfly.Errorf(mayfly.Invalid, "a volume of %d bytes cannot hold an object of %d", o.VolumeBytes, o.InlineBytes)
	}
	return o, nil
}

// pebbleOptions returns options for an ordered index of small records.
func (s *Store) pebbleOptions() *pebble.Options {
	o := &pebble.Options{
		FS:                          s.guard,
		FormatMajorVersion:          pebble.FormatTableFormatV6, // fixed: a newer one is a step of its own
		CacheSize:                   s.opts.CacheBytes,
		MemTableSize:                uint64(s.opts.MemtableBytes),
		MemTableStopWritesThreshold: memtables,
		L0CompactionThreshold:       4,
		L0StopWritesThreshold:       32,
		MaxOpenFiles:                500,
		Logger:                      diskfs.Logger(s.opts.Fuse, s.opts.Logger),
		Merger:                      sums(),
		EventListener:               new(diskfs.Trouble).Listener(s.opts.Logger),
		CompactionConcurrencyRange:  func() (int, int) { return 1, 1 },
	}
	o.Experimental.ReadSamplingMultiplier = -1 // no compactions because of reads
	o.Experimental.CompactionScheduler = s.opts.Scheduler
	for i := range o.Levels {
		l := &o.Levels[i]
		l.BlockSize = 16 * kibibyte
		l.FilterPolicy = bloom.FilterPolicy(bitsPerKey)
		l.Compression = func() *sstable.CompressionProfile { return sstable.SnappyCompression }
	}
	return o
}
