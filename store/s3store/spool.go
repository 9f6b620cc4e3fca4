package s3store

import (
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"os"
	"sync/atomic"

	"github.com/mayflyhq/mayfly"
)

// spool is where parts wait until they are whole. A client may send as slowly as the
// listener allows: until then its part holds no memory and no slot, only disk space,
// which is bounded.
type spool struct {
	dir  string
	most int64
	used atomic.Int64
}

// take takes n bytes of the spool.
func (s *spool) take(n int64) error {
	if used := s.used.Add(n); used > s.most {
		s.used.Add(-n)
		return mayfly.Errorf(mayfly.Unavailable, "%d bytes of unfinished uploads wait already, at most %d", used-n, s.most).
			WithHint("try again in a moment; an operator can raise s3.spool_bytes")
	}
	return nil
}

// part makes an empty part. The caller must close it.
func (s *spool) part() (*part, error) {
	f, err := os.CreateTemp(s.dir, "mayfly-part-")
	if err == nil {
		err = os.Remove(f.Name()) // the open file needs no name, and nothing is left after a crash
	}
	if err != nil {
		return nil, s.failed(err)
	}
	return &part{spool: s, file: f, hash: sha256.New()}, nil
}

func (s *spool) failed(err error) error {
	return mayfly.Wrap(mayfly.Unavailable, fmt.Errorf("keep a part until it is whole: %w", err), "check the permissions and the free space of s3.spool_dir")
}

// part is a piece of an object that a client is sending.
type part struct {
	spool *spool
	file  *os.File
	size  int64
	hash  hash.Hash
}

// write appends b to the part, and writes it to noted.
func (p *part) write(b []byte, noted io.Writer) error {
	if err := p.spool.take(int64(len(b))); err != nil {
		return err
	}
	_, err := p.file.WriteAt(b, p.size)
	p.size += int64(len(b))
	if err != nil {
		return p.spool.failed(err)
	}
	_, err = io.MultiWriter(p.hash, noted).Write(b)
	return err
}

// fill appends r to the part until it has most bytes or the stream ends.
func (p *part) fill(ctx context.Context, r io.Reader, buffer []byte, most int64, noted io.Writer) (ended bool, err error) {
	for p.size < most && !ended {
		var n int
		if n, ended, err = fill(ctx, buffer[:min(int64(len(buffer)), most-p.size)], r); err == nil {
			err = p.write(buffer[:n], noted)
		}
		if err != nil {
			return false, err
		}
	}
	return ended, nil
}

// payload returns what the part holds, until it is reset or closed.
func (p *part) payload() payload { return payload{p.file, p.size, [32]byte(p.hash.Sum(nil))} }

// reset empties the part.
func (p *part) reset() error {
	p.spool.used.Add(-p.size)
	p.size = 0
	p.hash.Reset()
	if err := p.file.Truncate(0); err != nil {
		return p.spool.failed(err)
	}
	return nil
}

// close gives the space back. The file has no name: nothing is left of it.
func (p *part) close() {
	_ = p.file.Close()
	p.spool.used.Add(-p.size)
	p.size = 0
}

// payload is the content of a request, which can be sent several times.
type payload struct {
	io.ReaderAt
	size int64
	hash [32]byte
}

func (p payload) reader() io.Reader { return io.NewSectionReader(p, 0, p.size) }

// takeSlot waits for its turn to send a part.
func (s *Server) takeSlot(ctx context.Context) (giveBack func(), err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.opts.SlotWait, fmt.Errorf("%d parts are being sent already, for %v", s.opts.Parts, s.opts.SlotWait))
	defer cancel()
	select {
	case s.slots <- struct{}{}:
		return func() { <-s.slots }, nil
	case <-ctx.Done():
		return nil, mayfly.Wrap(mayfly.Unavailable, fmt.Errorf("wait to send a part: %w", context.Cause(ctx)), "the storage is slow: try again in a moment")
	}
}
