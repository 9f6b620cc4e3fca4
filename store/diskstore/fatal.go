package diskstore

import (
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"syscall"

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

// Fatalf implements pebble.Logger. Pebble counts on the process ending here, so
// it does not return: the fuse answers every caller.
func (l *logger) Fatalf(format string, args ...any) {
	stop(l.fuse, fmt.Errorf("pebble: "+format, args...))
}

// listener hears what Pebble reports from the background and goes on from.
func listener(log *slog.Logger) *pebble.EventListener {
	var background atomic.Int64
	return &pebble.EventListener{
		BackgroundError: func(err error) {
			// Pebble tries again at once: a line for each would fill what is left of the disk.
			if n := background.Add(1); n&(n-1) == 0 {
				log.Error("background write failed and is tried again", "count", n, "err", err)
			}
		},
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			log.Error("stored bytes are not what was written", "path", info.Path, "err", info.Details)
		},
	}
}

// failed gives what the disk or the database answered a kind.
func failed(doing string, err error) error {
	var known *mayfly.Error
	wrapped := fmt.Errorf("%s: %w", doing, err)
	switch {
	case errors.As(err, &known):
		return wrapped
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return mayfly.Wrap(mayfly.Full, wrapped, "free space on the disk")
	case errors.Is(err, pebble.ErrCorruption):
		return mayfly.Wrap(mayfly.Corrupt, wrapped, "restore the object from the other tier or a backup")
	default:
		return mayfly.Wrap(mayfly.Unavailable, wrapped, "")
	}
}
