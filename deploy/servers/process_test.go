//go:build unix

package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func sleeper(t *testing.T, script string) node {
	t.Helper()
	n := node{Number: 1, Address: "127.0.0.1", Folder: t.TempDir(), Command: command{Args: []string{"sh", "-c", script}}}
	p, err := startProcess(n)
	if err != nil {
		t.Fatal(err)
	}
	n.Process = p
	t.Cleanup(func() {
		if err := p.kill(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return n
}

func TestAProcessIsIdentifiedByIDAndStartTime(t *testing.T) {
	n := sleeper(t, "sleep 60")
	if !n.running() {
		t.Fatal("a process that was just started is not found")
	}
	other := process{Pid: n.Process.Pid, Started: "1 ticks after boot another"}
	if other.alive() {
		t.Fatal("a process with the same ID and another start time is accepted")
	}
}

func TestAProcessWithAnotherStartTimeIsNeverSignalled(t *testing.T) {
	n := sleeper(t, "sleep 60")
	other := process{Pid: n.Process.Pid, Started: "1 ticks after boot another"}
	if err := other.stop(t.Context(), time.Second); err != nil {
		t.Fatal(err)
	}
	if err := other.kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := other.signal(syscall.SIGTERM); !errors.Is(err, errGone) {
		t.Fatalf("signal to another process: %v", err)
	}
	if !n.running() {
		t.Fatal("another process was ended")
	}
}

func TestAProcessThatIgnoresSIGTERMIsKilled(t *testing.T) {
	n := sleeper(t, "trap '' TERM; echo ready; while :; do sleep 1; done")
	awaitLog(t, n, "ready")
	if err := n.Process.stop(t.Context(), 50*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if n.running() {
		t.Fatal("it still runs")
	}
}

func TestASuspendedProcessHandlesSIGTERM(t *testing.T) {
	n := sleeper(t, "trap 'echo asked; exit 0' TERM; echo ready; while :; do sleep 0.05; done")
	awaitLog(t, n, "ready")
	if err := n.Process.signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := n.Process.stop(t.Context(), 10*time.Second); err != nil {
		t.Fatal(err)
	}
	awaitLog(t, n, "asked")
}

func TestAServerInheritsOnlyThePath(t *testing.T) {
	t.Setenv("SECRET_OF_THE_CALLER", "do not pass on")
	n := sleeper(t, "env; echo ready; sleep 60")
	if text := awaitLog(t, n, "ready"); strings.Contains(text, "SECRET_OF_THE_CALLER") {
		t.Fatalf("the server was started with %s", text)
	}
}

func TestAZombieCountsAsGone(t *testing.T) {
	child := exec.Command("true")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = child.Wait() }() // its ID is released only now
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for {
		if _, err := startTime(child.Process.Pid); errors.Is(err, errGone) {
			return
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			t.Fatal("a zombie counts as running")
		}
	}
}

func TestAProcessNameMayContainAnything(t *testing.T) {
	stat := "77 (a) Z 1 (b)) S 1 77 77 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 424242 1000 2 3\n"
	state, ticks, err := parseStat([]byte(stat))
	if err != nil || state != "S" || ticks != "424242" {
		t.Fatalf("state %q, ticks %q, %v", state, ticks, err)
	}
	for _, broken := range []string{"", "77", "77 (x) S 1"} {
		if _, _, err := parseStat([]byte(broken)); err == nil {
			t.Errorf("%q is accepted as a stat line", broken)
		}
	}
}

// awaitLog returns the log of a node once it contains the word.
func awaitLog(t *testing.T, n node, word string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for {
		text, err := os.ReadFile(filepath.Join(n.Folder, "log.txt"))
		if err == nil && strings.Contains(string(text), word) {
			return string(text)
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			t.Fatalf("%q does not appear in %q", word, text)
		}
	}
}
