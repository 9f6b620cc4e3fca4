package diskstore

import (
	"context"
	"io"

	"github.com/mayflyhq/mayfly"
)

// fill reads r into room until it is full or r ends; only then the error is
// io.EOF. io.ReadFull would say of a short object what a cut connection says of
// itself.
func fill(room []byte, r io.Reader) ([]byte, error) {
	n := 0
	for n < len(room) {
		m, err := r.Read(room[n:])
		n += m
		if err != nil {
			return room[:n], err
		}
	}
	return room, nil
}

// patientReader ends with its context, and when its reader stays silent.
type patientReader struct {
	ctx    context.Context
	r      io.Reader
	silent int
}

// maxSilence is how many times in a row a reader may give nothing.
const maxSilence = 100

// Read implements io.Reader.
func (p *patientReader) Read(b []byte) (int, error) {
	if err := p.ctx.Err(); err != nil {
		return 0, mayfly.Wrap(mayfly.Unavailable, err, "")
	}
	n, err := p.r.Read(b)
	if n > 0 || err != nil {
		p.silent = 0
		return n, err
	}
	if p.silent++; p.silent > maxSilence {
		return 0, io.ErrNoProgress
	}
	return 0, nil
}

// room says Full while less than the floor is free. Deletes do not ask.
func (s *Store) room() error {
	if s.opts.Floor == 0 {
		return nil
	}
	usage, err := s.fs.GetDiskUsage(s.opts.Dir)
	if err != nil {
		return failed("ask for the free space", err)
	}
	if usage.AvailBytes < uint64(s.opts.Floor) {
		return mayfly.Errorf(mayfly.Full, "%d MiB are free of the %d MiB that stay free",
			usage.AvailBytes/mebibyte, s.opts.Floor/mebibyte).
			WithHint("free space on the disk, or lower the free-space floor; deletes and expiry go on")
	}
	return nil
}

// roomyWriter asks for room again every few MiB of a long stream.
type roomyWriter struct {
	s       *Store
	out     io.Writer
	unasked int
}

const askEvery = 4 * mebibyte

// Write implements io.Writer.
func (w *roomyWriter) Write(p []byte) (int, error) {
	if w.unasked += len(p); w.unasked > askEvery {
		w.unasked = 0
		if err := w.s.room(); err != nil {
			return 0, err
		}
	}
	n, err := w.out.Write(p)
	if err != nil {
		err = w.s.wrote("write a file", err)
	}
	return n, err
}
