//go:build unix

package resp

import (
	"io"
	"syscall"
)

// socket writes to a connection without waiting. It is not for concurrent use.
type socket struct {
	raw syscall.RawConn
	try func(fd uintptr) bool
	b   []byte
	n   int
	err error
}

// socketOf returns the socket of a connection; nil if it has none of its own, as with
// TLS.
func socketOf(nc any) *socket {
	raw := rawOf(nc)
	if raw == nil {
		return nil
	}
	s := &socket{raw: raw}
	s.try = func(fd uintptr) bool {
		s.n, s.err = syscall.Write(int(fd), s.b)
		return s.err != syscall.EINTR // then it is tried again
	}
	return s
}

// write writes as much of b as the socket takes at once.
func (s *socket) write(b []byte) (int, error) {
	s.b = b
	err := s.raw.Write(s.try)
	s.b = nil
	switch {
	case err != nil:
		return 0, err
	case s.err == syscall.EAGAIN:
		return 0, nil
	}
	return max(s.n, 0), s.err
}

func rawOf(nc any) syscall.RawConn {
	c, ok := nc.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}

// waiting waits until a socket can be read.
type waiting struct {
	raw syscall.RawConn
	try func(fd uintptr) bool
	now bool // in try: a read does not wait
	fd  int
	err error
}

// newWaiting returns nil for a connection that has no socket of its own, as with TLS.
func newWaiting(in io.Reader, s *source) *waiting {
	raw := rawOf(in)
	if raw == nil {
		return nil
	}
	w := &waiting{raw: raw}
	w.try = func(fd uintptr) bool {
		w.now, w.fd = true, int(fd)
		w.err = s.begin()
		w.now = false
		if w.err == syscall.EAGAIN { //nolint:errorlint // as read returns it
			s.park()
			return false
		}
		return true
	}
	return w
}

func (w *waiting) wait() error {
	if err := w.raw.Read(w.try); err != nil {
		return err
	}
	return w.err
}

// read reads what has arrived; EAGAIN means nothing.
func (w *waiting) read(b []byte) (int, error) {
	for {
		n, err := syscall.Read(w.fd, b)
		switch {
		case err == syscall.EINTR: //nolint:errorlint // as the system returns it
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}
