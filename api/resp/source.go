package resp

import "io"

// source reads a connection. It waits for bytes without a buffer to read them into, so
// that a connection takes none while its client is silent.
type source struct {
	in    io.Reader
	begin func() error // reads the first bytes from the source into a buffer
	park  func()       // gives the buffer away
	*waiting

	first []byte // read already
	one   [1]byte
}

func newSource(in io.Reader, begin func() error, park func()) *source {
	s := &source{in: in, begin: begin, park: park}
	s.waiting = newWaiting(in, s)
	return s
}

// wait waits until bytes arrive and begins to read them.
func (s *source) wait() error {
	if s.waiting != nil {
		return s.waiting.wait()
	}
	s.park()
	n, err := s.in.Read(s.one[:])
	s.first = s.one[:n]
	if n == 0 && err != nil {
		return err
	}
	return s.begin()
}

// Read reads what has arrived, and outside of wait waits for it.
func (s *source) Read(b []byte) (int, error) {
	switch {
	case s.waiting != nil && s.waiting.now:
		return s.waiting.read(b)
	case len(s.first) > 0:
		n := copy(b, s.first)
		s.first = s.first[n:]
		return n, nil
	}
	return s.in.Read(b)
}
