package media

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/mayflyhq/mayfly"
)

// inMemory is how many bytes a spool holds in memory; more go to a file.
const inMemory = 64 << 10

// spool keeps the bytes of a video until its index was read. The file has no name
// from the moment that it is made, so that no crash leaves bytes of a user behind.
type spool struct {
	dir  string // "" is the system's folder for temporary files
	mem  []byte
	file *os.File
	size int64
}

func (s *spool) Write(p []byte) (int, error) {
	if s.file == nil && len(s.mem)+len(p) <= inMemory {
		s.mem = append(s.mem, p...)
		s.size += int64(len(p))
		return len(p), nil
	}
	if s.file == nil {
		if err := s.create(); err != nil {
			return 0, err
		}
	}
	n, err := s.file.Write(p)
	s.size += int64(n)
	return n, spoolError(err)
}

func (s *spool) create() error {
	file, err := os.CreateTemp(s.dir, ".video-*")
	if err != nil {
		return spoolError(err)
	}
	if err := os.Remove(file.Name()); err != nil {
		return spoolError(errors.Join(err, file.Close()))
	}
	s.file = file
	_, err = file.Write(s.mem)
	s.mem = nil
	return spoolError(err)
}

// read fills p with the bytes at offset at, which must have been written.
func (s *spool) read(p []byte, at int64) error {
	if s.file == nil {
		copy(p, s.mem[at:])
		return nil
	}
	_, err := s.file.ReadAt(p, at)
	return spoolError(err)
}

func (s *spool) close() {
	if s.file != nil {
		_ = s.file.Close() // it has no name, and its bytes are not needed
	}
	*s = spool{}
}

// spoolError says what an error of the temporary file means for the caller.
func spoolError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOSPC):
		return mayfly.Wrap(mayfly.Full, fmt.Errorf("keep the video while it arrives: %w", err), "try again later")
	default:
		return mayfly.Wrap(mayfly.Unavailable, fmt.Errorf("keep the video while it arrives: %w", err), "try again later")
	}
}
