package diskstore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// deleteChunk is how many objects are deleted in one write.
const deleteChunk = 1000

// Delete implements store.Blobs. A file that cannot be removed is no error: the object
// is gone from the index, and Reclaim and the next opening try again.
func (s *Store) Delete(ctx context.Context, keys ...mayfly.BlobKey) error {
	for _, key := range keys {
		if err := store.CheckBlobKey(key); err != nil {
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
	return nil
}

func (s *Store) delete(keys []mayfly.BlobKey) error {
	dropped, err := s.forget(keys)
	if err != nil {
		return err
	}
	return errors.Join(s.discard(dropped), s.fuse.Err())
}

// forget durably removes objects from the index and returns their records.
func (s *Store) forget(keys []mayfly.BlobKey) (dropped []record, err error) {
	s.locks.lock(keys...)
	defer s.locks.unlock(keys...)
	b := s.db.NewBatch()
	for _, key := range keys {
		old, there, err := s.lookup(key)
		if err == nil && there {
			dropped = append(dropped, old)
			err = errors.Join(b.Delete(recordKey(key), nil), drops(b, old))
		}
		if err != nil {
			return nil, errors.Join(err, b.Close())
		}
	}
	if b.Empty() {
		// The call that deleted them held the locks until it was durable, or the fuse
		// has blown.
		return nil, errors.Join(b.Close(), s.fuse.Err())
	}
	return dropped, s.commit(b, pebble.Sync)
}
