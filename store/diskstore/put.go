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
	if err := checkKey(key); err != nil {
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
	if s.fuse.Err() == nil { // else somebody may still be writing from it
		s.heads.Put(room)
	}
	return rec, err
}

// putShared puts a small object into a volume.
func (s *Store) putShared(ctx context.Context, key mayfly.BlobKey, content []byte) (rec record, err error) {
	rec.size, rec.sha256 = int64(len(content)), sha256.Sum256(content)
	if len(content) == 0 {
		return rec, s.adopt(ctx, key, rec)
	}
	if rec.place, err = s.append(content); err != nil {
		return rec, err
	}
	defer s.letGo(rec.place)
	if err = s.adopt(ctx, key, rec); err != nil && s.fuse.Err() == nil { // else it may have been adopted
		err = errors.Join(err, s.abandon(rec))
	}
	return rec, err
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
		err = s.adopt(ctx, key, rec)
	}
	if err != nil && s.fuse.Err() == nil { // else it may have been adopted
		err = errors.Join(err, s.bury(rec.file))
	}
	return rec, err
}

// adopt puts the object that rec tells of in the place of whatever key has: one
// write, durable on return. It may have happened if the fuse has blown.
func (s *Store) adopt(ctx context.Context, key mayfly.BlobKey, rec record) error {
	old, there, err := s.replace(ctx, key, rec)
	if err != nil || !there {
		return err
	}
	s.gaveUp(old)
	if old.shared() {
		s.tidy(old.file)
		s.reclaimBehind()
	} else if old.file != 0 {
		if err := s.bury(old.file); err != nil {
			s.opts.Logger.Warn("a replaced file is still there", "key", key, "err", err)
		}
	}
	return s.fuse.Err()
}

func (s *Store) replace(ctx context.Context, key mayfly.BlobKey, rec record) (old record, there bool, err error) {
	s.locks.lock(key)
	defer s.locks.unlock(key)
	if err := ctx.Err(); err != nil {
		return old, false, mayfly.Wrap(mayfly.Unavailable, err, "")
	}
	if old, there, err = s.lookup(key); err != nil {
		return old, false, err
	}
	b := s.db.NewBatch()
	err = errors.Join(b.Set(recordKey(key), rec.encode(), nil), owns(b, key, rec.place))
	if there {
		err = errors.Join(err, drops(b, old))
	}
	if err != nil {
		return old, false, errors.Join(failed("write the index", err), b.Close())
	}
	return old, there, s.commit(b, pebble.Sync)
}
