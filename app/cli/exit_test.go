package cli

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/app/profile"
	"github.com/mayflyhq/mayfly/demo"
)

// A failed sync of the write-ahead log ends the process with its own exit code and a
// hint (I20).
func TestAFailedSyncEndsTheDemoWithItsOwnExitCode(t *testing.T) {
	var armed atomic.Bool
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		sync := op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData || op.Kind == errorfs.OpFileSyncTo
		if sync && armed.Load() && strings.HasSuffix(op.Path, ".log") {
			return syscall.EIO
		}
		return nil
	}))
	open := func(cfg config.Config) (*profile.Store, error) {
		cfg.Data, cfg.Disk.Floor = "data", 0
		if err := fs.MkdirAll(cfg.Data, 0o700); err != nil {
			return nil, err
		}
		s, err := profile.EmbeddedOn(fs, cfg.Data, cfg, node.Tables())
		armed.Store(true)
		return s, err
	}
	err := demo.Run(t.Context(), demo.Options{Out: io.Discard, Once: true, Stories: 3, Open: open})
	if code := exitCode(err); code != exitDisk {
		t.Fatalf("exit code %d: %v", code, err)
	}
	if text := message(err); strings.Count(text, "\n  → ") != 1 || strings.Count(text, "stopped acknowledging") != 1 {
		t.Errorf("the message should say it once, with a hint:\n%s", text)
	}
}

func TestEachKindOfErrorHasItsExitCode(t *testing.T) {
	for want, err := range map[int]error{
		exitOK:          nil,
		exitWrong:       errWrong,
		exitUsage:       usage(errors.New("no such flag")),
		exitConflict:    mayfly.Errorf(mayfly.Conflict, "in use"),
		exitFull:        mayfly.Errorf(mayfly.Full, "full"),
		exitUnavailable: mayfly.Errorf(mayfly.Unavailable, "away"),
		exitCorrupt:     mayfly.Errorf(mayfly.Corrupt, "damaged"),
	} {
		if got := exitCode(err); got != want {
			t.Errorf("%v: %d, want %d", err, got, want)
		}
	}
}

func TestAnUnknownFlagIsAUsageErrorWithAHint(t *testing.T) {
	var out, errs bytes.Buffer
	if code := Run([]string{"demo", "--storeys", "3"}, &out, &errs); code != exitUsage {
		t.Errorf("exit code %d", code)
	}
	if !strings.Contains(errs.String(), "--help") {
		t.Errorf("%s", &errs)
	}
}
