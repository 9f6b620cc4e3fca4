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
	defer s.heads.Put(room)
	head, err := fill(*room, r)
	if errors.Is(err, io.EOF) && len(head) <= s.opts.InlineBytes {
		rec := record{size: int64(len(head)), sha256: sha256.Sum256(head)}
		return rec, s.adopt(ctx, key, rec, head)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return record{}, err
	}
	return s.putFile(ctx, key, io.MultiReader(bytes.NewReader(head), r))
}

// putFile streams an object into a file of its own.
func (s *Store) putFile(ctx context.Context, key mayfly.BlobKey, r io.Reader) (record, error) {
	rec := record{file: fileNumber(s.lastFile.Add(1))}
	doom := s.db.NewBatch()
	if err := doom.Set(doomedKey(rec.file), nil, nil); err != nil {
		return record{}, failed("write the index", err)
	}
	if err := s.commit(doom, pebble.Sync); err != nil {
		return record{}, err
	}
	hash := sha256.New()
	err := s.writeFile(rec.file, func(frames io.Writer) (err error) {
		rec.size, err = io.Copy(io.MultiWriter(hash, frames), r)
		return err
	})
	if err != nil {
		return record{}, errors.Join(err, s.bury(rec.file))
	}
	hash.Sum(rec.sha256[:0])
	return rec, s.adopt(ctx, key, rec, nil)
}

// adopt puts the object that rec tells of in the place of whatever key has: one
// write, durable on return.
func (s *Store) adopt(ctx context.Context, key mayfly.BlobKey, rec record, content []byte) error {
	s.locks.lock(key)
	old, there, err := s.lookup(key)
	if err == nil && ctx.Err() != nil {
		err = mayfly.Wrap(mayfly.Unavailable, ctx.Err(), "")
	}
	if err != nil {
		s.locks.unlock(key)
		if rec.file != 0 {
			err = errors.Join(err, s.bury(rec.file))
		}
		return err
	}
	b := s.db.NewBatchWithSize(len(content) + 4*(recordSize+len(key)))
	err = b.Set(tableKey(tableRecord, key), rec.append(nil), nil)
	if rec.file == 0 {
		err = errors.Join(err, s.setContent(b, key, rec, content))
	} else {
		err = errors.Join(err, b.Delete(doomedKey(rec.file), nil))
	}
	if there {
		err = errors.Join(err, s.drop(b, key, old, rec.file != 0))
	}
	if err == nil {
		// From here on the outcome is the disk's: nothing is undone.
		err = s.commit(b, pebble.Sync)
	}
	s.locks.unlock(key)
	if err != nil || !there || old.file == 0 {
		return err
	}
	if err := s.bury(old.file); err != nil {
		s.opts.Logger.Warn("a replaced file is still there", "key", key, "err", err)
	}
	return s.fuse.Err()
}

// setContent writes record and bytes as one value, without a copy in between.
func (s *Store) setContent(b *pebble.Batch, key mayfly.BlobKey, rec record, content []byte) error {
	op := b.SetDeferred(1+len(key), recordSize+len(content))
	copy(op.Key, tableKey(tableContent, key))
	copy(op.Value[len(rec.append(op.Value[:0])):], content)
	return op.Finish()
}

// drop takes the bytes of an object away: a value at once, a file by dooming it.
func (s *Store) drop(b *pebble.Batch, key mayfly.BlobKey, old record, value bool) error {
	switch {
	case old.file != 0:
		return b.Set(doomedKey(old.file), nil, nil)
	case value:
		return b.DeleteSized(tableKey(tableContent, key), uint32(recordSize+old.size), nil)
	default:
		return nil // the new value replaces it
	}
}
