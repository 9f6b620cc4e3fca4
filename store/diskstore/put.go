package diskstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// Put implements store.Blobs. It keeps no more than Options.InlineBytes and two
// frames of the object in memory.
func (s *Store) Put(ctx context.Context, key mayfly.BlobKey, r io.Reader) (store.Object, error) {
	if err := store.CheckBlobKey(key); err != nil {
		return store.Object{}, err
	}
	if err := s.enter(ctx); err != nil {
		return store.Object{}, err
	}
	defer s.leave()
	rec, err := s.put(ctx, key, &contextReader{ctx: ctx, r: r})
	if err != nil {
		return store.Object{}, fmt.Errorf("put %s: %w", key, err)
	}
	return rec.object(key), nil
}

func (s *Store) put(ctx context.Context, key mayfly.BlobKey, r io.Reader) (record, error) {
	if err := s.room(); err != nil {
		return record{}, err
	}
	room := s.heads.Get().(*[]byte)
	head, err := fill(*room, r)
	var rec record
	switch {
	case err == io.EOF && len(head) <= s.opts.InlineBytes:
		rec, err = s.putShared(ctx, key, head)
	case err == io.EOF:
		rec, err = s.putFile(ctx, key, bytes.NewReader(head))
	case err == nil:
		rec, err = s.putFile(ctx, key, io.MultiReader(bytes.NewReader(head), r))
	}
	if s.fuse.Err() == nil { // else a writer may still be using it
		s.heads.Put(room)
	}
	return rec, err
}

// putShared puts a small object into a volume; an empty one needs none.
func (s *Store) putShared(ctx context.Context, key mayfly.BlobKey, content []byte) (record, error) {
	e := newEntry(ctx, key, record{size: int64(len(content)), sha256: sha256.Sum256(content), sum: checksum(content)})
	if len(content) == 0 {
		return e.rec, s.adoptOne(e)
	}
	e.content = content
	if err := s.share(e); err != nil {
		return record{}, err // the entry is not ours if the fuse has blown
	}
	return e.rec, nil
}

// putFile streams an object into a file of its own.
func (s *Store) putFile(ctx context.Context, key mayfly.BlobKey, r io.Reader) (rec record, err error) {
	if rec.file, err = s.newFile(); err != nil {
		return rec, err
	}
	hash := sha256.New()
	err = s.writeFile(rec.file, func(frames io.Writer) (err error) {
		rec.size, err = io.Copy(io.MultiWriter(hash, frames), r)
		return err
	})
	hash.Sum(rec.sha256[:0])
	if err == nil {
		err = s.adoptOne(newEntry(ctx, key, rec))
	}
	if err != nil && s.fuse.Err() == nil { // else it may have been adopted
		err = errors.Join(err, s.removeFiles(rec.file))
	}
	return rec, err
}

// commit applies b, and with pebble.Sync waits until it is durable. A goroutine
// of its own does the work, because Pebble's calls do not return when the disk has
// failed: then commit returns the error of the fuse, and the outcome is unknown.
func (s *Store) commit(b *pebble.Batch, sync *pebble.WriteOptions) error {
	done := make(chan error, 1)
	go func() { done <- s.apply(b, sync) }()
	select {
	case err := <-done:
		return err
	case <-s.fuse.Blown():
		return s.fuse.Err()
	}
}

// apply does the work of commit on a goroutine that may block for ever: it does not
// return when the disk has failed.
func (s *Store) apply(b *pebble.Batch, sync *pebble.WriteOptions) (err error) {
	defer func() {
		if r := recover(); r != nil {
			s.fuse.Blow(fmt.Errorf("pebble: commit: %v", r))
			err = s.fuse.Err()
		}
	}()
	if err := s.db.Apply(b, sync); err != nil {
		s.fuse.Blow(fmt.Errorf("pebble: commit: %w", err))
	}
	if err := s.fuse.Err(); err != nil {
		return err
	}
	return b.Close()
}

// fill reads r into room until it is full or r ends; only in the second case the error
// is io.EOF. io.ReadFull would return io.ErrUnexpectedEOF for a short object, as a
// broken connection does.
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

// contextReader fails when its context ends or its reader repeatedly returns no bytes.
type contextReader struct {
	ctx    context.Context
	r      io.Reader
	silent int
}

// maxSilence is how often in a row a reader may return no bytes.
const maxSilence = 100

// Read implements io.Reader.
func (p *contextReader) Read(b []byte) (int, error) {
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

// room returns Full while less than the floor is free. Deletes do not call it.
func (s *Store) room() error {
	if s.opts.Floor == 0 {
		return nil
	}
	usage, err := s.fs.GetDiskUsage(s.opts.Dir)
	if err != nil {
		return failed("ask for the free space", err)
	}
	if usage.AvailBytes < uint64(s.opts.Floor) {
		return mayfly.Errorf(mayfly.Full, "%d MiB are free, and %d MiB must stay free",
			usage.AvailBytes/mebibyte, s.opts.Floor/mebibyte).
			WithHint("free space on the disk, or lower the free-space floor; deletes and expiry go on")
	}
	return nil
}

// roomyWriter checks for room again every few MiB of a long stream.
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
