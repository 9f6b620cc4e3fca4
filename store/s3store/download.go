package s3store

import (
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"time"

	"github.com/mayflyhq/mayfly"
)

// download hands out a body, knows how long it must be, and ends one that does
// not move any more (I17).
type download struct {
	ctx      context.Context
	cancel   context.CancelFunc
	body     io.ReadCloser
	key      mayfly.BlobKey
	left     int64 // bytes that have not come
	patience time.Duration
	hash     hash.Hash // nil if nothing is known of what comes
	want     [32]byte
}

// expect makes it compare everything that comes with its hash.
func (d *download) expect(want [32]byte) { d.hash, d.want = sha256.New(), want }

// Read implements io.Reader. Who is told of a length and gets that many bytes
// takes them for whole: the last ones come only if all are right (I14).
func (d *download) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	stop := time.AfterFunc(d.patience, d.cancel)
	n, err := d.body.Read(p)
	stop.Stop()
	d.left -= int64(n)
	if d.hash != nil {
		d.hash.Write(p[:n])
	}
	ended := errors.Is(err, io.EOF)
	switch {
	case d.left < 0:
		return 0, mayfly.Errorf(mayfly.Corrupt, "%s is longer than the server says", d.key)
	case err != nil && !ended:
		return n, mayfly.Errorf(mayfly.Unavailable, "%s broke off, %d bytes are missing: %w", d.key, d.left, err)
	case ended && d.left > 0:
		return n, mayfly.Errorf(mayfly.Unavailable, "%s broke off, %d bytes are missing: %w", d.key, d.left, io.ErrUnexpectedEOF)
	case d.left == 0 && d.hash != nil && [32]byte(d.hash.Sum(nil)) != d.want:
		return 0, mayfly.Errorf(mayfly.Corrupt, "%s is not what was written", d.key)
	}
	return n, err
}

// Close implements io.Closer.
func (d *download) Close() error {
	err := d.body.Close()
	d.cancel()
	return err
}
