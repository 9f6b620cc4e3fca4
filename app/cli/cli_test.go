package cli

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/spf13/cobra"

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

func TestBenchRefusesUnknownArguments(t *testing.T) {
	for _, args := range [][]string{{"bench"}, {"bench", "nothing"}, {"bench", "gate", "sweep"}, {"bench", "gate", "--quick", "--long"}} {
		var out, errs bytes.Buffer
		if code := Run(args, &out, &errs); code != exitUsage || out.Len() > 0 || errs.Len() == 0 {
			t.Errorf("%q: exit %d, %q, %q", args, code, out.String(), errs.String())
		}
	}
}

func TestConfigDescribeAndCheck(t *testing.T) {
	t.Chdir(t.TempDir())
	text := runVerb(t, exitOK, "# interval is how often", "config", "describe")
	if err := os.WriteFile("all.yaml", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	runVerb(t, exitOK, "0 of ", "config", "check", "all.yaml")
	runVerb(t, exitOK, "0 of ", "config", "check")
	t.Setenv("MAYFLY_WALK_INTERVAL", "2s")
	runVerb(t, exitOK, "walk.interval: 2s (default: 1s)", "config", "check")
	runVerb(t, exitOK, "walk.interval: 3s (default: 1s)", "config", "check", "--set", "walk.interval=3s")
	runVerb(t, exitUsage, "did you mean walk.page?", "config", "check", "--set", "walk.pag=3")
	runVerb(t, exitUsage, "--set key=value", "config", "check", "--set", "walk.page")
	if err := os.WriteFile("mayfly.yaml", []byte("walk:\n  intervall: 2s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	runVerb(t, exitUsage, "mayfly.yaml:2: walk.intervall: unknown key", "config", "check")
	runVerb(t, exitUsage, "mayfly.yaml:2", "serve", "--data", "data")
	if _, err := os.Stat("data"); err == nil {
		t.Error("a folder was created")
	}
}

func TestATokenNeedsTheKeyOfAServer(t *testing.T) {
	t.Chdir(t.TempDir())
	runVerb(t, exitWrong, "mayfly serve makes the key", "token", "--user", "ana")
	runVerb(t, exitUsage, "--user is missing", "token")
	runVerb(t, exitUsage, "choose user, service", "token", "--scope", "king")
	runVerb(t, exitUsage, "--log-level", "serve", "--log-level", "loud")
	if found, _ := filepath.Glob("*"); len(found) > 0 {
		t.Errorf("files left: %v", found)
	}
}

func TestEveryVerbHasHelpWithExamples(t *testing.T) {
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		shown := c.Example != "" || c.HasParent() && c.Parent().HasParent() && c.Parent().Example != "" // with its siblings
		if c.Short == "" || !shown && c.Name() != "version" && !c.Hidden {
			t.Errorf("%s: no example, or no line in the help above it", c.CommandPath())
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newRoot())
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		runVerb(t, exitOK, "mayfly", "completion", shell)
	}
	if text := runVerb(t, exitOK, "", "__complete", "story", "publish", "--audience", ""); !strings.Contains(text, "close_friends") {
		t.Error(text)
	}
}
