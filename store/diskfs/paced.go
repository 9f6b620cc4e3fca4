package diskfs

import (
	"context"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly/store/loop"
)

// Paced is fs on which flushes and compactions rest between their writes, so
// that they use no more than share of a core while there is no hurry: reads wait
// behind what runs in one piece. hurry is asked before each rest.
func Paced(fs vfs.FS, share float64, hurry func() bool) vfs.FS {
	return &pacedFS{FS: fs, share: share, hurry: hurry}
}

// What Pebble calls the writes of a flush and of a compaction.
const (
	flushWrites      vfs.DiskWriteCategory = "pebble-memtable-flush"
	compactionWrites vfs.DiskWriteCategory = "pebble-compaction"
)

// pacedBytes is how much is written in one piece, and maxRest the longest rest
// after it: a machine that stood still for a while owes nothing for it.
const (
	pacedBytes = 64 << 10
	maxRest    = 20 * time.Millisecond
)

type pacedFS struct {
	vfs.FS
	share float64
	hurry func() bool
}

// Unwrap implements vfs.FS.
func (p *pacedFS) Unwrap() vfs.FS { return p.FS }

// Create implements vfs.FS.
func (p *pacedFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := p.FS.Create(name, category)
	if err != nil || category != flushWrites && category != compactionWrites {
		return f, err
	}
	return &pacedFile{File: f, fs: p, busy: loop.Stopwatch()}, nil
}

type pacedFile struct {
	vfs.File
	fs      *pacedFS
	written int
	busy    func() time.Duration // since the last rest
}

// Write implements vfs.File.
func (f *pacedFile) Write(b []byte) (int, error) {
	n, err := f.File.Write(b)
	if f.written += n; f.written >= pacedBytes {
		f.written = 0
		f.rest()
	}
	return n, err
}

func (f *pacedFile) rest() {
	if !f.fs.hurry() {
		d := time.Duration(float64(f.busy()) * (1/f.fs.share - 1))
		_ = loop.Rest(context.Background(), min(d, maxRest)) // nothing ends it early
	}
	f.busy = loop.Stopwatch()
}
