package diskstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

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
	rec, err := s.put(ctx, key, &patientReader{ctx: ctx, r: r})
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
		err = errors.Join(err, s.bury(rec.file))
	}
	return rec, err
}
