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

// process identifies a process that this program started. The ID alone is not enough,
// because the kernel reuses it; the start time makes it unique.
type process struct {
	Pid     int    `json:"pid"`
	Started string `json:"born"`
}

// startProcess starts a node's command in a session of its own: it outlives this
// program and gets no signals from the terminal.
func startProcess(n node) (*process, error) {
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
	started, err := startTime(cmd.Process.Pid)
	if err != nil && !errors.Is(err, errGone) { // one that has ended already has no start time; its log says why
		return nil, errors.Join(err, cmd.Process.Kill(), cmd.Wait())
	}
	p := &process{Pid: cmd.Process.Pid, Started: started}
	go func() { _ = cmd.Wait() }() // so that no zombie remains; its log says how it ended
	return p, nil
}

func (p *process) alive() bool {
	started, err := startTime(p.Pid)
	return err == nil && started == p.Started
}

var errGone = errors.New("no such process")

// startTime returns when a process started, as a text that no other process with this
// ID ever has; errGone if the process does not exist or is a zombie.
func startTime(pid int) (string, error) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		return startTimeByPs(pid)
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

// parseStat returns the third and the 22nd field of /proc/PID/stat. The second is a name
// in parentheses that may contain anything.
func parseStat(stat []byte) (state, ticks string, err error) {
	end := bytes.LastIndexByte(stat, ')')
	fields := strings.Fields(string(stat[end+1:]))
	if end < 0 || len(fields) < 20 {
		return "", "", fmt.Errorf("invalid /proc stat line %q", stat)
	}
	return fields[0], fields[19], nil
}

func startTimeByPs(pid int) (string, error) {
	out, err := exec.Command("ps", "-o", "stat=,lstart=", "-p", strconv.Itoa(pid)).Output()
	state, started, ok := strings.Cut(strings.TrimSpace(string(out)), " ")
	if err != nil || !ok || strings.HasPrefix(state, "Z") {
		return "", errGone
	}
	return strings.TrimSpace(started), nil
}

// signal sends a signal to this process and never to another: it opens the handle
// before it compares the start time, so the ID cannot be reused in between.
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

// stop sends SIGTERM and, if the process has not ended after grace, SIGKILL. It also
// wakes a process that a test suspended, so that it handles SIGTERM.
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
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("process %d has not ended: %w", p.Pid, err)
		}
	}
	return nil
}

// resident returns the resident memory in bytes; 0 if it is unknown.
func (p *process) resident() int64 {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.Pid), "statm"))
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// pause waits for d or until the context ends.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// lockFile locks a file until it is closed or this program ends. It calls waiting once
// if another process holds the lock.
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
		if err := pause(ctx, 100*time.Millisecond); err != nil {
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
