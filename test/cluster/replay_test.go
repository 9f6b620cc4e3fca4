//go:build servers

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store/storetest"
)

// judgeReplay moves the consumers' group back by `mayfly replay`. While one of them
// reads it is refused. Then one gets every event since then again, and no effect is
// made twice (I13).
func (w *testCluster) judgeReplay(proof string, reads *consumer, e errand, log *events) {
	w.Helper()
	from, want := log.half()
	var refused *exec.ExitError
	if out, err := w.replay(from); !errors.As(err, &refused) || refused.ExitCode() != conflict {
		w.Errorf("the group is being read, and a replay of it ends with %v: %s", err, out)
	}
	reads.stop()
	effects, again := e.made(w)
	out, err := w.replay(from)
	if err != nil {
		w.Fatalf("%v: %s", err, out)
	}
	found := regexp.MustCompile(`(?m)^ends: group ` + mortals + ` continues from ` + from.String() + `; ([\d,]+) events to read$`).FindStringSubmatch(out)
	if found == nil {
		w.Fatalf("a replay says %q", out)
	}
	waiting, err := strconv.Atoi(strings.ReplaceAll(found[1], ",", ""))
	if err != nil {
		w.Fatal(err)
	}
	w.consumer(e)
	var news, more int // effects of what it had not come to yet, and events that came again
	eventually(w, 30*time.Second, "every record that waited is delivered", func() bool {
		effectsNow, againNow := e.made(w)
		news, more = effectsNow-effects, againNow-again
		return news+more >= waiting
	})
	storetest.Proof(w, proof, "replayed: events since the middle, records that waited, delivered again, new effects", fmt.Sprintf("%d, %d, %d, %d", want, waiting, more, news))
	if want < 20 || waiting < want || more < want {
		w.Errorf("of %d events that had their effect %d were delivered again", want, more)
	}
}

// conflict is the exit code of the program when another process has what it needs.
const conflict = 3

// replay runs the operators' verb for the consumers' group.
func (w *testCluster) replay(from mayfly.Instant) (string, error) {
	path, err := binary()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "replay", "--config", w.file, "--set", "node=operator",
		"--from", from.String(), "--group", mortals, "--stream", mayfly.Ends.String())
	cmd.Env = ownEnviron()
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// half is an instant in the middle of the events that ended stories, and how many
// of them are not before it.
func (e *events) half() (from mayfly.Instant, since int) {
	var all []mayfly.Instant
	for k, x := range e.all {
		if k.Verb != mayfly.WasCreated {
			all = append(all, x.At)
		}
	}
	slices.Sort(all)
	from = all[len(all)/2]
	for _, at := range all {
		if at >= from {
			since++
		}
	}
	return from, since
}

// made is how many effects there are, and how many events came again.
func (e errand) made(t testing.TB) (effects, again int) {
	t.Helper()
	files, err := os.ReadDir(e.Folder)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(e.Folder, "again"))
	if err != nil {
		t.Fatal(err)
	}
	return len(files) - 1, len(text)
}

// stop ends a consumer as its operator does: it leaves its group.
func (c *consumer) stop() {
	c.Helper()
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		c.Fatal(err)
	}
	if err := c.cmd.Wait(); err != nil {
		c.Fatal(err)
	}
}
