package pebblestore

import (
	"context"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// reclaimChunk is how many rows are reclaimed in one batch, under their locks.
const reclaimChunk = 64

// Reclaim deletes rows whose ReclaimAt has passed. It handles at most limit entries
// of the reclaim index, oldest first, and returns how many. Its cost depends on what
// is due, not on the size of the table. It reads each row under its lock: a row
// that was written again with a later ReclaimAt stays, and only the old entry is
// deleted (I12).
func (s *Store) Reclaim(ctx context.Context, now mayfly.Instant, limit int) (n int, err error) {
	for n < limit {
		taken, err := s.reclaim(ctx, now, min(limit-n, reclaimChunk))
		n += taken
		if err != nil || taken == 0 {
			return n, err
		}
	}
	return n, nil
}

func (s *Store) reclaim(ctx context.Context, now mayfly.Instant, limit int) (int, error) {
	if err := s.begin(ctx); err != nil {
		return 0, err
	}
	due, err := s.due(now, limit)
	if err != nil || len(due) == 0 {
		s.leave()
		return 0, err
	}
	held := make([]lock, len(due))
	for i, key := range due {
		if held[i], err = rowLockOf(key[reclaimHead:]); err != nil {
			s.leave()
			return 0, err
		}
	}
	held = sorted(held)
	if err := s.locks.take(ctx, s.fuse, held); err != nil {
		s.leave()
		return 0, err
	}
	w := &writing{batch: s.db.NewBatch(), held: held}
	for _, key := range due {
		if err := s.reclaimRow(w.batch, key, now); err != nil {
			s.locks.free(held)
			s.leave()
			return 0, errors.Join(readError("reclaim", err), w.batch.Close())
		}
	}
	if err := s.write(ctx, w); err != nil {
		return 0, err
	}
	return len(due), nil
}

// due returns the keys of the entries whose time has passed.
func (s *Store) due(now mayfly.Instant, limit int) (keys [][]byte, err error) {
	upper := appendInstant([]byte{reclaimPrefix}, min(max(now, 0), maxInstant-1)+1)
	iter, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{reclaimPrefix}, UpperBound: upper})
	if err != nil {
		return nil, readError("reclaim", err)
	}
	for ok := iter.First(); ok && len(keys) < limit; ok = iter.Next() {
		keys = append(keys, append([]byte(nil), iter.Key()...))
	}
	if err := iter.Close(); err != nil {
		return nil, readError("reclaim", err)
	}
	return keys, nil
}

// reclaimRow deletes the entry, and its row if the row is due.
func (s *Store) reclaimRow(b *pebble.Batch, entry []byte, now mayfly.Instant) error {
	row := append([]byte{tablePrefix}, entry[reclaimHead:]...)
	due := false
	_, err := s.get(row, func(value []byte) error {
		if len(value) < rowValueHead {
			return mayfly.Errorf(mayfly.Corrupt, "row %x has only %d bytes", row, len(value))
		}
		at := instantAt(value)
		due = at != 0 && at <= now
		return nil
	})
	if err == nil && due {
		err = b.Delete(row, nil)
	}
	return errors.Join(err, b.Delete(entry, nil))
}

// rowLockOf returns the lock of the row with this key, given without its prefix.
func rowLockOf(key []byte) (lock, error) {
	if len(key) >= 3 {
		if n := 3 + int(key[1])<<8 + int(key[2]); n <= len(key) {
			return rowLock(key[0], store.Key{Partition: string(key[3:n]), Clustering: string(key[n:])}), nil
		}
	}
	return 0, mayfly.Errorf(mayfly.Corrupt, "the reclaim entry names the malformed key %x", key)
}
