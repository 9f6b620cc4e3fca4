package upload

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// Open opens the copy of a medium that is stored under key, or a span of it. Read
// from its beginning to its end, the bytes are checked against the hash of the
// medium (I14). Errors: NotFound, Corrupt (also from Read), Unavailable.
func Open(ctx context.Context, tier store.Blobs, key mayfly.BlobKey, medium mayfly.Medium, span store.Span) (io.ReadCloser, error) {
	r, object, err := tier.Open(ctx, key, span)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", key, err)
	}
	if object.Size != medium.Size {
		err := mayfly.Errorf(mayfly.Corrupt, "%s has %d bytes, not %d", key, object.Size, medium.Size)
		return nil, errors.Join(err, r.Close())
	}
	if span.Offset == 0 && (span.Length == 0 || span.Length >= medium.Size) {
		r = &verified{ReadCloser: r, hash: sha256.New(), left: medium.Size, want: medium.SHA256, key: key}
	}
	return r, nil
}

// ReadBack reads the copy of a medium that is stored under key, checks every byte
// against the hash of the medium and returns how many it has read. Errors: those of
// Open.
func ReadBack(ctx context.Context, tier store.Blobs, key mayfly.BlobKey, medium mayfly.Medium) (int64, error) {
	r, err := Open(ctx, tier, key, medium, store.Span{})
	if err != nil {
		return 0, err
	}
	size, err := io.Copy(io.Discard, r)
	return size, errors.Join(err, r.Close())
}

// Seeker reads an object from its beginning or from anywhere. Not safe for
// concurrent use. Close it.
type Seeker struct {
	size   int64
	open   func(offset int64) (io.ReadCloser, error)
	r      io.ReadCloser // nil: nothing is open
	at     int64         // the offset of r
	offset int64         // where the next Read begins
}

// NewSeeker returns a Seeker over an object of size bytes. Open opens it at an
// offset; first is the object open at its beginning.
func NewSeeker(first io.ReadCloser, size int64, open func(offset int64) (io.ReadCloser, error)) *Seeker {
	return &Seeker{size: size, open: open, r: first}
}

// Read reads from the current offset.
func (s *Seeker) Read(p []byte) (int, error) {
	if s.offset >= s.size {
		return 0, io.EOF
	}
	if err := s.reopen(); err != nil {
		return 0, err
	}
	n, err := s.r.Read(p)
	s.offset += int64(n)
	s.at = s.offset
	return n, err
}

// reopen opens the object at the offset, unless that is where it is open. Seek alone
// opens nothing, because callers find out a size by seeking to the end and back.
func (s *Seeker) reopen() error {
	if s.r != nil && s.at == s.offset {
		return nil
	}
	if err := s.Close(); err != nil {
		return err
	}
	r, err := s.open(s.offset)
	if err != nil {
		return err
	}
	s.r, s.at = r, s.offset
	return nil
}

// Seek sets where the next Read begins.
func (s *Seeker) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += s.offset
	case io.SeekEnd:
		offset += s.size
	}
	if offset < 0 {
		return 0, mayfly.Errorf(mayfly.Invalid, "seek to before the beginning")
	}
	s.offset = offset
	return offset, nil
}

// Close closes the object.
func (s *Seeker) Close() error {
	if s.r == nil {
		return nil
	}
	r := s.r
	s.r = nil
	return r.Close()
}

// verified hashes what it reads. Bytes that are not those of the medium end in
// Corrupt and without the last of them: a client that was promised a length and
// received as many bytes would take them for the whole medium (I14).
type verified struct {
	io.ReadCloser
	hash hash.Hash
	left int64 // bytes that have not been read
	want [sha256.Size]byte
	key  mayfly.BlobKey
}

func (v *verified) Read(p []byte) (int, error) {
	n, err := v.ReadCloser.Read(p)
	v.hash.Write(p[:n])
	v.left -= int64(n)
	last := v.left <= 0 || errors.Is(err, io.EOF)
	if last && (v.left != 0 || [sha256.Size]byte(v.hash.Sum(nil)) != v.want) {
		return 0, mayfly.Errorf(mayfly.Corrupt, "%s is not what was uploaded", v.key)
	}
	return n, err
}
