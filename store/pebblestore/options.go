package pebblestore

import (
	"log/slog"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
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
	defaultMemtable = 32 * mebibyte
)

// complete fills in defaults and refuses what cannot work; diskfs.Open does the same for
// what every database has.
func (o Options) complete() (Options, error) {
	if o.MemtableBytes == 0 {
		o.MemtableBytes = defaultMemtable
	}
	if o.Floor < 0 {
		return o, mayfly.Errorf(mayfly.Invalid, "the free-space floor of %d bytes is negative", o.Floor)
	}
	return o, nil
}
