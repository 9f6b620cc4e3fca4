package pebblestore

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// reclaimChunk is how many rows are reclaimed in one batch, under their locks.
const reclaimChunk = 256

// reclaims remembers up to where the reclaim index was emptied. Deleted entries stay in
// the tables of Pebble for a while, and a search from the start would pass all of them
// again for every chunk.
type reclaims struct {
	high atomic.Int64 // no Reclaim has looked at entries that are due later

	mu     sync.Mutex
	from   []byte         // no entry sorts before it
	at     mayfly.Instant // of from
	moved  uint64         // counts entries that were written behind or in front of a search
	oldest mayfly.Instant // the first entry that Reclaim left behind though it was due; 0 is none
	now    mayfly.Instant // of the last Reclaim
	looked int64          // entries, deleted or not, that were passed
	done   int64          // entries that were reclaimed
}

// start returns where to search from for entries that are due at now.
func (r *reclaims) start(now mayfly.Instant) (from []byte, moved uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.high.Store(max(r.high.Load(), int64(now)+1)) // before the search: see written
	if r.from == nil {
		return []byte{reclaimPrefix}, r.moved
	}
	return r.from, r.moved
}

// passed notes that no entry is left before next, unless one was written there since start.
func (r *reclaims) passed(next []byte, moved uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.moved == moved {
		r.from, r.at = next, instantAt(next[1:])
	}
}

// written notes a new entry that has become visible. Almost all are far ahead. One that
// is not may have been missed by a search under way.
func (r *reclaims) written(at mayfly.Instant) {
	if at == 0 || int64(at) > r.high.Load() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.moved++
	if r.from != nil && at <= r.at {
		r.from, r.at = appendInstant([]byte{reclaimPrefix}, at), at
	}
}

// left notes that the next entry after a Reclaim at now is due at oldest.
func (r *reclaims) left(now, oldest mayfly.Instant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now, r.oldest = now, oldest; oldest > now {
		r.oldest = 0
	}
}

// lag returns for how long the oldest row that is due has been due.
func (r *reclaims) lag() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.oldest == 0 {
		return 0
	}
	return r.now.Sub(r.oldest)
}

func (r *reclaims) count(looked, done int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.looked, r.done = r.looked+int64(looked), r.done+int64(done)
}

// Reclaim deletes rows whose ReclaimAt has passed. It handles at most limit entries
// of the reclaim index, oldest first, and returns how many. Its cost depends on what
// is due, not on the size of the table, nor on what it has deleted before. It reads
// each row under its lock: a row that was written again with a later ReclaimAt stays,
// and only the old entry is deleted (I12). Figures tell how far it is behind.
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
	from, moved := s.reclaims.start(now)
	due, next, err := s.due(from, now, limit)
	if err != nil || len(due) == 0 {
		if err == nil {
			s.reclaims.passed(next, moved)
			s.reclaims.left(now, now+1)
		}
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
	s.reclaims.passed(next, moved)
	s.reclaims.left(now, instantAt(next[1:]))
	s.reclaims.count(0, len(due))
	return len(due), nil
}

// due returns the keys of the entries from from on whose time has passed, and where
// the next search begins.
func (s *Store) due(from []byte, now mayfly.Instant, limit int) (keys [][]byte, next []byte, err error) {
	upper := appendInstant([]byte{reclaimPrefix}, min(max(now, 0), maxInstant-1)+1)
	if bytes.Compare(from, upper) >= 0 {
		return nil, from, nil // the clock went back
	}
	iter, err := s.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: upper})
	if err != nil {
		return nil, nil, readError("reclaim", err)
	}
	next = upper
	for ok := iter.First(); ok; ok = iter.Next() {
		if len(keys) == limit {
			next = bytes.Clone(iter.Key())
			break
		}
		keys = append(keys, bytes.Clone(iter.Key()))
	}
	stats := iter.Stats()
	s.reclaims.count(stats.ForwardStepCount[pebble.InternalIterCall]+stats.ForwardSeekCount[pebble.InternalIterCall], 0)
	if err := iter.Close(); err != nil {
		return nil, nil, readError("reclaim", err)
	}
	return keys, next, nil
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
