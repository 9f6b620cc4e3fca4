package pebblestore

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/diskfs"
	"github.com/mayflyhq/mayfly/store/loop"
)

// Options say where the database is and how much memory it uses, which is
// CacheBytes + 3 × MemtableBytes, however many items it holds.
type Options struct {
	FS   vfs.FS      // the file system of Dir
	Dir  string      // the folder of the database
	Fuse *store.Fuse // blown when a durable write fails; a new one if nil

	Tables []store.Table // the declared tables; any other table is refused

	Floor         int64 // births are refused while fewer bytes are free; 0 means no floor
	CacheBytes    int64 // cache of blocks; 64 MiB if 0
	MemtableBytes int64 // size of a memtable; 32 MiB if 0

	// Share is the part of a core that flushes and compactions use while there is
	// no backlog, so that reads do not wait for them; they are not paced if 0.
	Share float64

	Scheduler pebble.CompactionScheduler // of compactions; Pebble's, which has a timer of 100 ms, if nil

	Logger *slog.Logger // for what an operator should know; none if nil
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

// complete fills in defaults and refuses what cannot work.
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
		return o, mayfly.Errorf(mayfly.Invalid, "pebblestore needs FS and Dir")
	case o.Floor < 0:
		return o, mayfly.Errorf(mayfly.Invalid, "the free-space floor of %d bytes is negative", o.Floor)
	case o.Share < 0 || o.Share > 1:
		return o, mayfly.Errorf(mayfly.Invalid, "the share of a core for compactions is %g; it must be between 0 and 1", o.Share)
	case o.CacheBytes < 0:
		return o, mayfly.Errorf(mayfly.Invalid, "the cache of %d bytes is negative", o.CacheBytes)
	case o.MemtableBytes < minMemtable || o.MemtableBytes > maxMemtable:
		return o, mayfly.Errorf(mayfly.Invalid, "the memtable has %d bytes; it must have between %d and %d", o.MemtableBytes, minMemtable, maxMemtable)
	}
	return o, nil
}

// pebbleOptions returns options chosen for many small durable commits, bursts of
// rewritten rows, and reads that are not slowed by them: docs/decisions/0003.
func (s *Store) pebbleOptions() *pebble.Options {
	o := &pebble.Options{
		FS:                          s.fs,
		FormatMajorVersion:          pebble.FormatTableFormatV6,                         // fixed: a newer one needs a new Format
		CacheSize:                   s.opts.CacheBytes + memtables*s.opts.MemtableBytes, // Pebble counts the memtables as part of the cache
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
	o.Experimental.ReadSamplingMultiplier = -1 // reads start no compactions
	o.Experimental.CompactionScheduler = s.opts.Scheduler
	o.FlushSplitBytes = 2 * mebibyte
	o.TargetFileSizes[0] = 4 * mebibyte
	for i := range o.Levels {
		l := &o.Levels[i]
		l.FilterPolicy = pebble.NoFilterPolicy
		l.BlockSize = 16 << 10
		l.IndexBlockSize = 64 << 10
		if i < len(o.Levels)-1 { // a look-up never uses the filter of the last level
			l.FilterPolicy = bloom.FilterPolicy(bitsPerKey)
		}
		l.Compression = func() *sstable.CompressionProfile { return sstable.SnappyCompression }
	}
	return o
}

// pressure tells whether flushes and compactions must run at full speed: a
// memtable waits behind the one being flushed, or tables pile up in the first
// level, where every read has to search all of them.
type pressure struct {
	db    atomic.Pointer[pebble.DB]
	mu    sync.Mutex
	asked func() time.Duration // since the metrics were last read
	last  bool                 // the answer then
}

const (
	pressureEvery     = 50 * time.Millisecond
	pressureSublevels = 6 // L0 is compacted from 2 sublevels on, and blocks writes at 32
	pressureMemtables = 3 // the one being written, the one being flushed and one that waits
)

// high reports whether flushes and compactions must not rest now.
func (p *pressure) high() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked != nil && p.asked() < pressureEvery {
		return p.last
	}
	p.asked = loop.Stopwatch()
	db := p.db.Load()
	if db == nil { // being opened or closed
		return true
	}
	m := db.Metrics()
	p.last = m.MemTable.Count >= pressureMemtables || m.Levels[0].Sublevels >= pressureSublevels
	return p.last
}
