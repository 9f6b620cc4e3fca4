//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package diskfs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mayflyhq/mayfly"
)

// lock holds the named file by flock, which ends with the process however it
// ends, and holds within one process as well. The holder writes its number into
// the file, for the hint of the second process.
func (r *RootFS) lock(name string) (io.Closer, error) {
	f, err := r.root.OpenFile(name, os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return nil, err
	}
	if err := hold(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func hold(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return inUse(f)
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "process %d\n", os.Getpid())
	return err
}

func inUse(f *os.File) error {
	var text [64]byte
	n, _ := f.ReadAt(text[:], 0)
	holder := strings.TrimSpace(string(text[:n]))
	if holder == "" {
		holder = "another process"
	}
	return mayfly.Errorf(mayfly.Conflict, "%s is held by %s", f.Name(), holder).
		WithHint("one process at a time uses a data folder: stop that one, or choose another folder")
}
