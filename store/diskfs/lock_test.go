package diskfs_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/mayflyhq/mayfly"
)

func TestFolderIsHeldByOneProcess(t *testing.T) {
	const in = "DISKFS_TEST_FOLDER"
	if dir := os.Getenv(in); dir != "" { // the other process
		lock, err := root(t, dir).Lock("LOCK")
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("held")
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = lock
		return
	}
	dir := t.TempDir()
	other := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	other.Env = append(os.Environ(), in+"="+dir)
	stdin, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || line != "held\n" {
		t.Fatalf("%q, %v", line, err)
	}
	r := root(t, dir)
	_, err = r.Lock("LOCK")
	if !errors.Is(err, mayfly.Conflict) || !strings.Contains(err.Error(), fmt.Sprintf("process %d", other.Process.Pid)) {
		t.Fatalf("a second process: %v", err)
	}
	if err := errors.Join(other.Process.Kill(), stdin.Close()); err != nil {
		t.Fatal(err)
	}
	_ = other.Wait()
	lock, err := r.Lock("LOCK") // killed, it holds nothing
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Lock("LOCK"); !errors.Is(err, mayfly.Conflict) {
		t.Fatalf("twice in one process: %v", err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if lock, err = r.Lock("LOCK"); err != nil {
		t.Fatal(err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
}
