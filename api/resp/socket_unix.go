//go:build unix

package resp

import (
	"net"
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
func socketOf(nc net.Conn) *socket {
	c, ok := nc.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := c.SyscallConn()
	if err != nil {
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
