package diskfs

import (
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mayflyhq/mayfly/store"
)

// Logger returns the logger of a Pebble database under Guard.
func Logger(fuse *store.Fuse, log *slog.Logger) pebble.Logger { return &logger{fuse: fuse, log: log} }

type logger struct {
	fuse *store.Fuse
	log  *slog.Logger
}

// Infof implements pebble.Logger. Pebble logs its every step, which is too much.
func (l *logger) Infof(string, ...any) {}

// Errorf implements pebble.Logger.
func (l *logger) Errorf(format string, args ...any) {
	l.log.Error(fmt.Sprintf("pebble: "+format, args...))
}

// Fatalf implements pebble.Logger. Pebble counts on the process ending here: a
// commit that failed would be answered with nil, a flush that failed would
// delete tables that the manifest may name. So it does not return either: the
// fuse answers every caller, and the node ends the process. Most of what ends
// here has stopped in Guard before.
func (l *logger) Fatalf(format string, args ...any) {
	Stop(l.fuse, fmt.Errorf("pebble: "+format, args...))
}

// Trouble counts what Pebble reports from the background and goes on from: a
// flush or compaction that found the disk full is tried again.
type Trouble struct {
	Background atomic.Int64
	Corrupt    atomic.Int64
}

// Listener logs the errors of background work.
func (t *Trouble) Listener(log *slog.Logger) *pebble.EventListener {
	return &pebble.EventListener{
		BackgroundError: func(err error) {
			// Pebble tries again at once: a line for each would fill what is left of the disk.
			if n := t.Background.Add(1); n&(n-1) == 0 {
				log.Error("background write failed and is tried again", "count", n, "err", err)
			}
		},
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			t.Corrupt.Add(1)
			log.Error("stored bytes are not what was written", "path", info.Path, "err", info.Details)
		},
	}
}
