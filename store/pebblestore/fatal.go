package pebblestore

import (
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// logger is what Pebble talks to.
type logger struct {
	fuse *store.Fuse
	log  *slog.Logger
}

// Infof implements pebble.Logger. Pebble tells its every step; nobody asked.
func (l *logger) Infof(string, ...any) {}

// Errorf implements pebble.Logger.
func (l *logger) Errorf(format string, args ...any) {
	l.log.Error(fmt.Sprintf("pebble: "+format, args...))
}

// Fatalf implements pebble.Logger. Pebble counts on the process ending here: a
// commit that failed would be answered with nil, a flush that failed would
// delete tables that the manifest may name. So it does not return either: the
// fuse answers every caller, and the node ends the process. Most of what ends
// here has stopped in guardFS before.
func (l *logger) Fatalf(format string, args ...any) {
	stop(l.fuse, fmt.Errorf("pebble: "+format, args...))
}

// trouble counts what Pebble reports from the background and goes on from: a
// flush or compaction that found the disk full is tried again.
type trouble struct {
	background atomic.Int64
	corrupt    atomic.Int64
}

func (t *trouble) listener(log *slog.Logger) *pebble.EventListener {
	return &pebble.EventListener{
		BackgroundError: func(err error) {
			// Pebble tries again at once: a line for each would fill what is left of the disk.
			if n := t.background.Add(1); n&(n-1) == 0 {
				log.Error("background write failed and is tried again", "count", n, "err", err)
			}
		},
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			t.corrupt.Add(1)
			log.Error("stored bytes are not what was written", "path", info.Path, "err", info.Details)
		},
	}
}

// readError gives an error of a read its kind.
func readError(what string, err error) error {
	var known *mayfly.Error
	switch {
	case errors.As(err, &known):
		return fmt.Errorf("%s: %w", what, err)
	case errors.Is(err, pebble.ErrCorruption):
		return mayfly.Wrap(mayfly.Corrupt, fmt.Errorf("%s: %w", what, err), "restore the data folder from a backup")
	default:
		return mayfly.Wrap(mayfly.Unavailable, fmt.Errorf("%s: %w", what, err), "")
	}
}
