package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is one that we started. A number alone is not enough: the kernel gives
// it to somebody else later. The moment of birth tells the two apart.
type process struct {
	Pid  int    `json:"pid"`
	Born string `json:"born"`
}

// spawn starts a node's command apart from us: it outlives this program, and
// what is typed at our terminal does not reach it.
func spawn(n node) (*process, error) {
	log, err := os.OpenFile(n.log(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(n.Command.Args[0], n.Command.Args[1:]...)
	cmd.Dir = n.Folder
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + n.Folder, "LANG=C.UTF-8"}, n.Command.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	detach(cmd)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	born, err := birth(cmd.Process.Pid)
	if err != nil {
		return nil, errors.Join(err, cmd.Process.Kill(), cmd.Wait())
	}
	p := &process{Pid: cmd.Process.Pid, Born: born}
	go func() { _ = cmd.Wait() }() // so that no zombie stays; how it ended is in its log
	return p, nil
}

func (p *process) alive() bool {
	born, err := birth(p.Pid)
	return err == nil && born == p.Born
}

var errGone = errors.New("no such process")

// birth tells when a process began, in words that no other process of this
// number ever has; errGone if there is none or only its zombie.
func birth(pid int) (string, error) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		return birthByPs(pid)
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", errGone
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	state, ticks, err := parseStat(stat)
	if err != nil {
		return "", err
	}
	if state == "Z" || state == "X" {
		return "", errGone
	}
	return fmt.Sprintf("%s ticks after boot %s", ticks, bytes.TrimSpace(boot)), nil
}

// parseStat reads the third and the 22nd field; the second is a name in
// parentheses that may hold anything.
func parseStat(stat []byte) (state, ticks string, err error) {
	end := bytes.LastIndexByte(stat, ')')
	fields := strings.Fields(string(stat[end+1:]))
	if end < 0 || len(fields) < 20 {
		return "", "", fmt.Errorf("not what /proc says of a process: %q", stat)
	}
	return fields[0], fields[19], nil
}

func birthByPs(pid int) (string, error) {
	out, err := exec.Command("ps", "-o", "stat=,lstart=", "-p", strconv.Itoa(pid)).Output()
	state, born, ok := strings.Cut(strings.TrimSpace(string(out)), " ")
	if err != nil || !ok || strings.HasPrefix(state, "Z") {
		return "", errGone
	}
	return strings.TrimSpace(born), nil
}

// signal reaches the process or nobody: the handle is taken before the birth is
// compared, so the number cannot change hands in between.
func (p *process) signal(sig os.Signal) error {
	handle, err := os.FindProcess(p.Pid)
	if err != nil {
		return errGone
	}
	defer func() { _ = handle.Release() }()
	if !p.alive() {
		return errGone
	}
	if err = handle.Signal(sig); errors.Is(err, os.ErrProcessDone) {
		return errGone
	}
	return err
}

// stop asks with SIGTERM and, when that did not help within the grace, ends it
// with SIGKILL. A process that a test froze is woken to hear the first.
func (p *process) stop(ctx context.Context, grace time.Duration) error {
	for _, sig := range []os.Signal{syscall.SIGTERM, wake()} {
		if err := p.signal(sig); errors.Is(err, errGone) {
			return nil
		} else if err != nil {
			return err
		}
	}
	if err := p.awaitEnd(ctx, grace); err == nil || ctx.Err() != nil {
		return err
	}
	return p.kill(ctx)
}

func (p *process) kill(ctx context.Context) error {
	if err := p.signal(syscall.SIGKILL); errors.Is(err, errGone) {
		return nil
	} else if err != nil {
		return err
	}
	return p.awaitEnd(ctx, 10*time.Second)
}

func (p *process) awaitEnd(ctx context.Context, most time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for p.alive() {
		if err := rest(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("process %d has not ended: %w", p.Pid, err)
		}
	}
	return nil
}

// resident is the memory that a process holds, in bytes; 0 where it cannot be told.
func (p *process) resident() int64 {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.Pid), "statm"))
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

func rest(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// lockFile holds a file until it is closed or this program ends. waiting is
// called once if somebody else holds it.
func lockFile(ctx context.Context, name string, waiting func()) (*os.File, error) {
	for first := true; ; first = false {
		f, err := tryLock(name)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, errHeld) {
			return nil, err
		}
		if first {
			waiting()
		}
		if err := rest(ctx, 100*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

var errHeld = errors.New("held by another run")

func tryLock(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if flock(f) != nil {
		return nil, errors.Join(errHeld, f.Close())
	}
	return f, nil
}
