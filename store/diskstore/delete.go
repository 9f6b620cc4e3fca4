package diskstore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mayflyhq/mayfly"
)

// deleteChunk is how many objects are deleted in one write.
const deleteChunk = 1000

// Delete implements store.Blobs. A file that cannot be removed is an error, and
// is tried again by the next Delete and when the folder is opened.
func (s *Store) Delete(ctx context.Context, keys ...mayfly.BlobKey) error {
	for _, key := range keys {
		if err := checkKey(key); err != nil {
			return err
		}
	}
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	keys = slices.Clone(keys)
	slices.Sort(keys)
	for chunk := range slices.Chunk(slices.Compact(keys), deleteChunk) {
		if err := ctx.Err(); err != nil {
			return mayfly.Wrap(mayfly.Unavailable, err, "")
		}
		if err := s.delete(chunk); err != nil {
			return fmt.Errorf("delete: %w", err)
		}
	}
	s.reclaimBehind()
	return nil
}

func (s *Store) delete(keys []mayfly.BlobKey) error {
	s.locks.lock(keys...)
	doomed, err := s.forget(keys)
	s.locks.unlock(keys...)
	if err != nil {
		return err
	}
	return s.bury(doomed...)
}

// forget takes the objects off the index, durably, and answers with the files
// that they leave behind.
func (s *Store) forget(keys []mayfly.BlobKey) ([]fileNumber, error) {
	var doomed []fileNumber
	b := s.db.NewBatch()
	for _, key := range keys {
		old, there, err := s.lookup(key)
		if err == nil && there {
			err = errors.Join(b.Delete(tableKey(tableRecord, key), nil), s.drop(b, key, old, true))
		}
		if err != nil {
			return nil, errors.Join(err, b.Close())
		}
		switch {
		case !there:
		case old.file != 0:
			doomed = append(doomed, old.file)
		default:
			s.waste.add(key, old.size)
		}
	}
	if b.Empty() {
		// Whoever deleted them held the locks until it was durable, or the fuse
		// has blown.
		return nil, errors.Join(b.Close(), s.fuse.Err())
	}
	return doomed, s.commit(b, pebble.Sync)
}
