package diskstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// Stat implements store.Blobs.
func (s *Store) Stat(ctx context.Context, key mayfly.BlobKey) (store.Object, error) {
	if err := store.CheckBlobKey(key); err != nil {
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
	if err := store.CheckBlobKey(key); err != nil {
		return nil, store.Object{}, err
	}
	if err := s.enter(ctx); err != nil {
		return nil, store.Object{}, err
	}
	defer s.leave()
	// An object may be replaced or moved after its record was read: then read the
	// record again.
	for range maxLooks {
		rec, there, err := s.lookup(key)
		if err != nil {
			return nil, store.Object{}, err
		}
		if !there {
			return nil, store.Object{}, errNotFound(key)
		}
		r, err := s.openRecord(key, rec, span)
		if r != nil || err != nil {
			return r, rec.object(key), err
		}
	}
	return nil, store.Object{}, mayfly.Errorf(mayfly.Corrupt, "the bytes of %s are not there", key)
}

// maxLooks is how often an object may vanish under a reader and be there again
// before its bytes are given up.
const maxLooks = 8

// openRecord opens the bytes of rec. It returns nil if they are gone.
func (s *Store) openRecord(key mayfly.BlobKey, rec record, span store.Span) (io.ReadCloser, error) {
	end, err := endOf(span, rec.size)
	if err != nil {
		return nil, err
	}
	var r io.ReadCloser
	switch {
	case rec.file == 0:
		return io.NopCloser(bytes.NewReader(nil)), nil
	case rec.shared():
		content, err := s.readLive(key, rec)
		if content != nil && err == nil {
			r = io.NopCloser(bytes.NewReader(content[span.Offset:end]))
		}
		return r, wrap(key, err)
	default:
		f, err := s.openFile(rec)
		if f != nil && err == nil {
			r = &frameReader{in: f, rec: rec, offset: span.Offset, end: end}
		}
		return r, wrap(key, err)
	}
}

func wrap(key mayfly.BlobKey, err error) error {
	if err != nil {
		err = fmt.Errorf("open %s: %w", key, err)
	}
	return err
}

// readLive reads an object from its volume. It returns nil if the object is no longer
// there: deleted or moved, its bytes are overwritten sooner or later.
func (s *Store) readLive(key mayfly.BlobKey, rec record) ([]byte, error) {
	content, err := s.readShared(rec)
	if !errors.Is(err, mayfly.Corrupt) {
		return content, err
	}
	if now, there, again := s.lookup(key); again == nil && (!there || now.place != rec.place) {
		return nil, nil
	}
	return nil, err
}

// readShared reads an object from its volume. It returns nil if the volume is gone.
func (s *Store) readShared(rec record) (content []byte, err error) {
	if rec.size <= 0 || rec.size > maxInline {
		return nil, mayfly.Errorf(mayfly.Corrupt, "%d bytes in volume %x", rec.size, rec.file)
	}
	f, err := s.handles.take(rec.file, func() (vfs.File, error) { return s.fs.Open(s.fileOf(rec.file)) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, failed("open a volume", err)
	}
	defer func() { err = errors.Join(err, s.handles.giveBack(f)) }()
	content = make([]byte, rec.size)
	if n, err := f.ReadAt(content, rec.offset); n < len(content) {
		if errors.Is(err, io.EOF) {
			return nil, mayfly.Errorf(mayfly.Corrupt, "volume %x ends at %d", rec.file, rec.offset+int64(n))
		}
		return nil, failed("read a volume", err)
	}
	if checksum(content) != rec.sum { // an eighth of the time of its hash
		return nil, mayfly.Errorf(mayfly.Corrupt, "volume %x at %d: the checksum does not match", rec.file, rec.offset)
	}
	return content, nil
}

// openFile opens the file of an object. It returns nil if it is gone.
func (s *Store) openFile(rec record) (vfs.File, error) {
	f, err := s.fs.Open(s.fileOf(rec.file))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, failed("open a file", err)
	}
	info, err := f.Stat()
	if err == nil && info.Size() != framedSize(rec.size) {
		err = mayfly.Errorf(mayfly.Corrupt, "file %x has %d bytes, not %d", rec.file, info.Size(), framedSize(rec.size))
	}
	if err != nil {
		return nil, errors.Join(failed("open a file", err), f.Close())
	}
	return f, nil
}

// endOf returns where span ends in an object of size bytes.
func endOf(span store.Span, size int64) (int64, error) {
	if span.Offset < 0 || span.Length < 0 || span.Offset > size || span.Offset == size && span.Offset > 0 {
		return 0, mayfly.Errorf(mayfly.Invalid, "range of %d bytes from %d in an object of %d", span.Length, span.Offset, size)
	}
	if span.Length == 0 || span.Length > size-span.Offset {
		return size, nil
	}
	return span.Offset + span.Length, nil
}

// CopyTo implements store.Blobs. It checks the checksum of every byte.
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
	bounds := &pebble.IterOptions{LowerBound: recordKey(from), UpperBound: []byte{tableRecord + 1}}
	if to != "" {
		bounds.UpperBound = recordKey(to)
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

// PresignGet implements store.Blobs: a folder has no address that a browser could
// reach.
func (s *Store) PresignGet(context.Context, mayfly.BlobKey, time.Duration) (string, error) {
	return "", noURLs()
}

// PresignPut implements store.Blobs.
func (s *Store) PresignPut(context.Context, mayfly.BlobKey, int64, time.Duration) (string, error) {
	return "", noURLs()
}

func noURLs() error {
	return mayfly.Errorf(mayfly.Unsupported, "a tier on a folder has no presigned URLs")
}
