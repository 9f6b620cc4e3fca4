package diskstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// Stat implements store.Blobs.
func (s *Store) Stat(ctx context.Context, key mayfly.BlobKey) (store.Object, error) {
	if err := checkKey(key); err != nil {
		return store.Object{}, err
	}
	if err := s.enter(ctx); err != nil {
		return store.Object{}, err
	}
	defer s.leave()
	rec, there, err := s.lookup(key)
	if err == nil && !there {
		err = errNotFound(key)
	}
	return rec.object(key), err
}

func errNotFound(key mayfly.BlobKey) error {
	return mayfly.Errorf(mayfly.NotFound, "there is no object %s", key)
}

// Open implements store.Blobs.
func (s *Store) Open(ctx context.Context, key mayfly.BlobKey, span store.Span) (io.ReadCloser, store.Object, error) {
	if err := checkKey(key); err != nil {
		return nil, store.Object{}, err
	}
	if err := s.enter(ctx); err != nil {
		return nil, store.Object{}, err
	}
	defer s.leave()
	// An object may be replaced between a look at the index and one at its
	// bytes: then look again.
	for range maxLooks {
		rec, there, err := s.lookup(key)
		if err != nil {
			return nil, store.Object{}, err
		}
		if !there {
			return nil, store.Object{}, errNotFound(key)
		}
		r, rec, err := s.openRecord(key, rec, span)
		if r != nil || err != nil {
			return r, rec.object(key), err
		}
	}
	return nil, store.Object{}, mayfly.Errorf(mayfly.Corrupt, "the bytes of %s are not there", key)
}

// maxLooks is how often an object may vanish under a reader and be there again
// before its bytes are given up.
const maxLooks = 8

// openRecord opens the bytes that rec tells of, or those of another small object
// that has taken their place. It answers with nothing if there are none.
func (s *Store) openRecord(key mayfly.BlobKey, rec record, span store.Span) (io.ReadCloser, record, error) {
	var body []byte
	var there bool
	var err error
	if rec.file == 0 {
		if rec, body, there, err = s.content(key); err != nil || !there {
			return nil, rec, err
		}
	}
	end, err := endOf(span, rec.size)
	if err != nil {
		return nil, rec, err
	}
	if rec.file == 0 {
		if int64(len(body)) != rec.size || sha256.Sum256(body) != rec.sha256 {
			return nil, rec, mayfly.Errorf(mayfly.Corrupt, "the bytes of %s are not what was written", key)
		}
		return io.NopCloser(bytes.NewReader(body[span.Offset:end])), rec, nil
	}
	f, err := s.fs.Open(s.fileOf(rec.file))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, rec, nil
	}
	if err != nil {
		return nil, rec, failed("open "+string(key), err)
	}
	if info, err := f.Stat(); err != nil || info.Size() != framedSize(rec.size) {
		if err == nil {
			err = mayfly.Errorf(mayfly.Corrupt, "the file of %s has %d bytes, not %d", key, info.Size(), framedSize(rec.size))
		}
		return nil, rec, errors.Join(failed("open "+string(key), err), f.Close())
	}
	return &frameReader{in: f, rec: rec, offset: span.Offset, end: end}, rec, nil
}

// endOf is where span ends in an object of size bytes.
func endOf(span store.Span, size int64) (int64, error) {
	if span.Offset < 0 || span.Length < 0 || span.Offset > size || span.Offset == size && span.Offset > 0 {
		return 0, mayfly.Errorf(mayfly.Invalid, "range of %d bytes from %d in an object of %d", span.Length, span.Offset, size)
	}
	if span.Length == 0 || span.Length > size-span.Offset {
		return size, nil
	}
	return span.Offset + span.Length, nil
}

// CopyTo implements store.Blobs. Every byte passes its checksum on the way.
func (s *Store) CopyTo(ctx context.Context, to store.Blobs, from, as mayfly.BlobKey) (store.Object, error) {
	r, _, err := s.Open(ctx, from, store.Span{})
	if err != nil {
		return store.Object{}, fmt.Errorf("copy %s: %w", from, err)
	}
	copied, err := to.Put(ctx, as, r)
	if err = errors.Join(err, r.Close()); err != nil {
		return store.Object{}, fmt.Errorf("copy %s: %w", from, err)
	}
	return copied, nil
}

// List implements store.Blobs. from and to may be any text.
func (s *Store) List(ctx context.Context, from, to mayfly.BlobKey, limit int) (listed []store.Listed, err error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	bounds := &pebble.IterOptions{LowerBound: tableKey(tableRecord, from), UpperBound: []byte{tableRecord + 1}}
	if to != "" {
		bounds.UpperBound = tableKey(tableRecord, to)
	}
	if limit <= 0 || bytes.Compare(bounds.LowerBound, bounds.UpperBound) >= 0 {
		return nil, nil
	}
	iter, err := s.db.NewIter(bounds)
	if err != nil {
		return nil, failed("list", err)
	}
	defer func() {
		if closed := iter.Close(); err == nil && closed != nil {
			err = failed("list", closed)
		}
	}()
	for ok := iter.First(); ok && len(listed) < limit; ok = iter.Next() {
		if err := ctx.Err(); err != nil {
			return nil, mayfly.Wrap(mayfly.Unavailable, err, "")
		}
		rec, err := decodeRecord(iter.Value())
		if err != nil {
			return nil, err
		}
		listed = append(listed, store.Listed{Key: mayfly.BlobKey(iter.Key()[1:]), Size: rec.size})
	}
	return listed, nil
}

// Presign implements store.Blobs: a folder has no address that a browser could
// reach.
func (s *Store) Presign(context.Context, store.Access, mayfly.BlobKey, time.Duration) (string, error) {
	return "", mayfly.Errorf(mayfly.Unsupported, "a tier on a folder has no addresses of its own")
}
