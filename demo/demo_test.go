package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/app/profile"
)

// The demonstration as scripts run it, with a server that is killed.
func TestTheDemoIsAllRight(t *testing.T) {
	var out bytes.Buffer
	d := demo{out: &out, once: true, stories: 12, child: testChild}
	if err := d.run(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	for _, want := range []string{
		"killed with -9", "starts on the folder that it left: ready after", "server stops and starts again", "opens it from there in",
		"reshares it as story", "deletes it: gone at once", "held: hidden from", "restored: ", "is read and verified",
		"LOST 0  RESURRECTED 0  EARLY 0  LATE 0  LEAK 0  DOUBLE 0  ORPHAN 0", "verdict: all was right",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, &out)
		}
	}
	if _, err := os.Stat(d.folder); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its folder is left: %v", err)
	}
}

// Who has seen enough gets the verdict of what came to its end so far.
func TestTheDemoCanBeStoppedAndIsJudged(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var out bytes.Buffer
	d := demo{out: &stopper{&out, " is first refused at ", stop}, lasts: time.Minute}
	if err := d.run(ctx); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	for _, want := range []string{"Try it meanwhile", "mayfly() {", "stopped: ", "verdict: all was right"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, &out)
		}
	}
}

// stopper stops when it is told to write a text.
type stopper struct {
	*bytes.Buffer
	at   string
	stop func()
}

func (s *stopper) Write(p []byte) (int, error) {
	if strings.Contains(string(p), s.at) {
		s.stop()
	}
	return s.Buffer.Write(p)
}

// The judge of the demonstration, held against answers that must not be.
func TestTheDemoTellsWrongAnswers(t *testing.T) {
	const end = 1_000_000
	friend, everybody, stranger := onlooker{permitted: true}, onlooker{permitted: true, always: true}, onlooker{}
	for name, c := range map[string]struct {
		who     onlooker
		e       exchange
		refused int64 // when it had been refused before
		want    word  // words: nothing is wrong
	}{
		"served before its end":               {friend, exchange{end - 2, end - 1, true, true}, 0, words},
		"asked before its end, served after":  {friend, exchange{end - 1, end + 1, true, true}, 0, words},
		"asked at its end and served":         {friend, exchange{end, end + 1, true, true}, 0, late},
		"served after it was refused":         {friend, exchange{end, end + 1, true, true}, end, resurrected},
		"refused before its end":              {friend, exchange{end - 3, end - 1, false, true}, 0, early},
		"asked before its end, refused after": {friend, exchange{end - 1, end, false, true}, 0, words},
		"served to a stranger":                {stranger, exchange{end - 2, end - 1, true, true}, 0, leak},
		"refused to a stranger":               {stranger, exchange{end - 2, end - 1, false, true}, 0, words},
		"refused to its author":               {everybody, exchange{end + 1, end + 2, false, true}, 0, lost},
		"served to its author after its end":  {everybody, exchange{end + 1, end + 2, true, true}, 0, words},
		"not answered":                        {friend, exchange{end - 3, end - 1, false, false}, 0, words},
	} {
		d := demo{}
		w := &window{end: end}
		w.firstRefused.Store(c.refused)
		d.judge(&life{}, w, c.who, "story", c.e)
		got := words
		for w := range words {
			if d.count.counts[w] > 0 {
				got = w
			}
		}
		if got != c.want {
			t.Errorf("%s: %v", name, d.count.String())
		}
	}
}

func TestTheDemoRefusesWhatItCannotShow(t *testing.T) {
	for _, d := range []*demo{{once: true}, {once: true, stories: 201}, {lasts: time.Second}, {lasts: 25 * time.Hour}} {
		d.out = io.Discard
		if code := exitCode(d.run(t.Context())); code != exitUsage {
			t.Errorf("exit code %d", code)
		}
	}
}

func TestTheDemoSaysWhatIsNotRight(t *testing.T) {
	var out bytes.Buffer
	d := demo{out: &out}
	d.table = newDemoTable(&out, d.rows)
	d.count.blame(late, "ben saw a story %d ms after its deadline", 3)
	if code := exitCode(d.verdict()); code != exitWrong {
		t.Errorf("exit code %d", code)
	}
	if !strings.Contains(out.String(), "LATE 1") || !strings.Contains(out.String(), "ben saw a story 3 ms") {
		t.Errorf("%s", &out)
	}
}

// A disk that fails a sync of the write-ahead log ends the run with an exit code
// of its own and a hint (I20).
func TestAFailedSyncEndsTheDemoWithItsOwnExitCode(t *testing.T) {
	var armed atomic.Bool
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		sync := op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData || op.Kind == errorfs.OpFileSyncTo
		if sync && armed.Load() && strings.HasSuffix(op.Path, ".log") {
			return syscall.EIO
		}
		return nil
	}))
	d := demo{out: io.Discard, once: true, stories: 3}
	d.open = func(cfg config.Config) (*profile.Store, error) {
		cfg.Data, cfg.Disk.Floor = "data", 0
		if err := fs.MkdirAll(cfg.Data, 0o700); err != nil {
			return nil, err
		}
		s, err := profile.EmbeddedOn(fs, cfg.Data, cfg)
		armed.Store(true)
		return s, err
	}
	err := d.run(t.Context())
	if code := exitCode(err); code != exitDisk {
		t.Fatalf("exit code %d: %v", code, err)
	}
	if text := message(err); strings.Count(text, "\n  → ") != 1 || strings.Count(text, "stopped acknowledging") != 1 {
		t.Errorf("the message should say it once, with a hint:\n%s", text)
	}
}

func TestExitCodesStandForKinds(t *testing.T) {
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

func TestAWrongFlagIsAnErrorOfUsageWithAHint(t *testing.T) {
	var out, errs bytes.Buffer
	if code := Run([]string{"demo", "--storeys", "3"}, &out, &errs); code != exitUsage {
		t.Errorf("exit code %d", code)
	}
	if !strings.Contains(errs.String(), "--help") {
		t.Errorf("%s", &errs)
	}
}
