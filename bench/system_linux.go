package bench

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// alarm wakes a goroutine at an instant: a timer of the kernel behind Go's
// network poller, so that a question arrives as a request does. Go's own timers
// are a millisecond coarse in an idle process, and a system call that sleeps
// would keep a processor from the others.
type alarm struct {
	file *os.File
	fd   int
}

func newAlarm() (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("timerfd: %w", err)
	}
	return &alarm{file: os.NewFile(uintptr(fd), "timerfd"), fd: fd}, nil
}

func (a *alarm) until(at time.Time) error {
	left := time.Until(at)
	if left <= 0 {
		return nil
	}
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(left.Nanoseconds())}
	if err := unix.TimerfdSettime(a.fd, 0, &spec, nil); err != nil {
		return fmt.Errorf("timerfd: %w", err)
	}
	var expirations [8]byte
	_, err := a.file.Read(expirations[:])
	return err
}

func (a *alarm) close() error { return a.file.Close() }

// inMemory says whether a folder is on a file system that has no disk.
func inMemory(folder string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(folder, &fs) == nil && (fs.Type == unix.TMPFS_MAGIC || fs.Type == unix.RAMFS_MAGIC)
}

// allocated is the space that a file takes on disk, which is less than its size if it
// has holes.
func allocated(info os.FileInfo) int64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Blocks * 512
	}
	return info.Size()
}

// residentBytes is the process's resident set.
func residentBytes() (int64, error) {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0, err
	}
	var kib int64
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if _, err := fmt.Sscanf(lines.Text(), "VmRSS: %d kB", &kib); err == nil {
			break
		}
	}
	if err := f.Close(); err != nil {
		return 0, err
	}
	if kib == 0 {
		return 0, errors.New("/proc/self/status names no resident set")
	}
	return kib << 10, nil
}
