package media

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/mayflyhq/mayfly"
)

const (
	inMemory = 64 << 10 // bytes that a spool holds in memory; more go to a file
	gathered = 8 << 10  // bytes that wait to be written to that file: a video may have many tiny parts
)

// spool keeps the bytes of a video until its index was read. The file has no name
// from the moment that it is made, so that no crash leaves bytes of a user behind.
type spool struct {
	dir  string // "" is the system's folder for temporary files
	mem  []byte
	file *os.File
	size int64
}

func (s *spool) Write(p []byte) (int, error) {
	most := inMemory
	if s.file != nil {
		most = gathered
	}
	if len(s.mem)+len(p) > most {
		if err := s.flush(); err != nil {
			return 0, err
		}
	}
	s.size += int64(len(p))
	if s.file != nil && len(p) > gathered {
		_, err := s.file.Write(p)
		return len(p), spoolError(err)
	}
	s.mem = append(s.mem, p...)
	return len(p), nil
}

// flush moves the bytes in memory to the file.
func (s *spool) flush() error {
	mem := s.mem
	s.mem = s.mem[:0]
	if s.file == nil {
		if err := s.create(); err != nil {
			return err
		}
		s.mem = make([]byte, 0, gathered)
	}
	_, err := s.file.Write(mem)
	return spoolError(err)
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
	return nil
}

// read fills p with the bytes at offset at, which must have been written.
func (s *spool) read(p []byte, at int64) error {
	if s.file == nil {
		copy(p, s.mem[at:])
		return nil
	}
	if len(s.mem) > 0 {
		if err := s.flush(); err != nil {
			return err
		}
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
