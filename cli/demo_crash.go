package cli

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/profile"
)

// acknowledged is what the publishing process says of a story once its birth is
// durable: everything that its killer must find again.
type acknowledged struct {
	ID       mayfly.ID
	Audience mayfly.Audience
	Born     mayfly.Instant
	Lifetime time.Duration
	Hash     string
}

// ownChild is this program once more, publishing into folder.
func ownChild(folder string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return exec.Command(self, "demo", "--child", folder), nil
}

// publishUntilKilled publishes stories as fast as it goes and says each one on
// out. It never ends by itself, except when nobody listens or after a minute.
func publishUntilKilled(ctx context.Context, folder string, out io.Writer) error {
	h := &house{folder: folder, open: profile.Embedded}
	if err := h.start(ctx); err != nil {
		return err
	}
	for n := 0; n < 100_000; n++ {
		l, err := newLife(ctx, h, n, "killed")
		if err != nil {
			return err
		}
		line, err := json.Marshal(acknowledged{ID: l.item.ID, Audience: l.item.Audience, Born: l.born, Lifetime: l.lifetime, Hash: hex.EncodeToString(l.hash[:])})
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "%s\n", line); err != nil {
			return err
		}
	}
	return nil
}

// crash lets another process publish and kills it in the middle of that. What it
// had acknowledged is the beginning of this demonstration.
func (d *demo) crash(ctx context.Context) (err error) {
	child, err := d.child(d.folder)
	if err != nil {
		return err
	}
	pipe, err := child.StdoutPipe()
	if err != nil {
		return err
	}
	if err := child.Start(); err != nil {
		return err
	}
	var lines []string
	for scanner := bufio.NewScanner(pipe); scanner.Scan(); {
		if lines = append(lines, scanner.Text()); len(lines) == d.stories/2 {
			break
		}
	}
	killed := child.Process.Kill() // it is publishing the next one right now
	rest, err := io.ReadAll(pipe)
	if err = errors.Join(killed, err); err != nil {
		return errors.Join(err, child.Wait())
	}
	if err := child.Wait(); err == nil {
		return errors.New("the process that was to be killed had ended by itself")
	}
	for line := range splitLines(rest) {
		lines = append(lines, line)
	}
	for _, line := range lines {
		l, err := readLife(line)
		if err != nil {
			return err
		}
		d.lives = append(d.lives, l)
	}
	d.stories, d.killed = max(d.stories, len(d.lives)), true
	d.say("another process publishes and is killed with -9 in the middle of it: it had acknowledged %d stories.", len(d.lives))
	return nil
}

func splitLines(b []byte) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for len(b) > 0 {
			line, rest, whole := cutLine(b)
			if !whole || !yield(line) { // a line that was cut is no acknowledgement
				return
			}
			b = rest
		}
	}
}

func cutLine(b []byte) (line string, rest []byte, whole bool) {
	for i, c := range b {
		if c == '\n' {
			return string(b[:i]), b[i+1:], true
		}
	}
	return "", nil, false
}

func readLife(line string) (*life, error) {
	var a acknowledged
	if err := json.Unmarshal([]byte(line), &a); err != nil {
		return nil, fmt.Errorf("the publishing process said %q: %w", line, err)
	}
	l := &life{lifetime: a.Lifetime, born: a.Born, deadline: a.Born + mayfly.Instant(a.Lifetime.Milliseconds()), twice: a.ID}
	l.item.ID, l.item.Audience = a.ID, a.Audience
	hash, err := hex.DecodeString(a.Hash)
	if err != nil || len(hash) != len(l.hash) {
		return nil, fmt.Errorf("the publishing process said %q: a hash that is none", line)
	}
	l.hash = [32]byte(hash)
	return l, nil
}
