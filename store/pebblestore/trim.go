package pebblestore

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mayflyhq/mayfly"
)

// pointTrim is up to how many records are trimmed one by one; a range deletion
// is for a few large ranges (trap 22).
const pointTrim = 256

// Trim implements store.Log. It forgets from the front of each partition up to
// the first event that is young enough: an older one behind that stays until
// that one goes.
func (s events) Trim(ctx context.Context, now mayfly.Instant, keep time.Duration) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	s.log.trimming.Lock()
	defer s.log.trimming.Unlock()
	w := &writing{batch: s.db.NewBatch()}
	cuts, err := s.trim(w.batch, now.Add(-keep))
	if err != nil || len(cuts) == 0 {
		err = errors.Join(err, w.batch.Close())
		s.leave()
	} else {
		// Readers are told before the records go, so that none misses one.
		for _, c := range cuts {
			raise(&s.log.tail[c.tail].first, c.end)
		}
		err = s.write(ctx, w)
	}
	if err != nil {
		return readError("trim", err)
	}
	return nil
}

func (s *Store) trim(b *pebble.Batch, oldest mayfly.Instant) (cuts []mark, err error) {
	for i := range s.log.tail {
		stream, partition := mayfly.Births+mayfly.Stream(i/partitions), uint32(i%partitions)
		first := s.log.tail[i].first.Load()
		cut, err := s.since(stream, partition, oldest)
		if err != nil {
			return nil, err
		}
		if cut <= first {
			continue
		}
		// The mark remembers the numbers when no record is left to tell them.
		err = b.Set(firstKey(stream, partition), binary.BigEndian.AppendUint64(nil, cut), nil)
		if cut-first > pointTrim {
			err = errors.Join(err, b.DeleteRange(logKey(stream, partition, 0), logKey(stream, partition, cut), nil))
		} else {
			for seq := first; seq < cut; seq++ {
				err = errors.Join(err, b.Delete(logKey(stream, partition, seq), nil))
			}
		}
		if err != nil {
			return nil, err
		}
		cuts = append(cuts, mark{tail: i, end: cut})
	}
	return cuts, nil
}

func firstKey(stream mayfly.Stream, partition uint32) []byte {
	return []byte{metaPrefix, metaFirst, byte(stream), byte(partition)}
}

// since is the number of the first record whose event happened at or after at,
// or the end. Records carry the highest At so far, which only rises.
func (s *Store) since(stream mayfly.Stream, partition uint32, at mayfly.Instant) (uint64, error) {
	t := &s.log.tail[tailIndex(stream, partition)]
	low, high := t.first.Load(), t.end.Load()
	for low < high {
		middle := low + (high-low)/2
		var found mayfly.Instant
		ok, err := s.get(logKey(stream, partition, middle), func(value []byte) error {
			if len(value) != recordSize {
				return mayfly.Errorf(mayfly.Corrupt, "record %d of %s/%d has %d bytes", middle, stream, partition, len(value))
			}
			found = highOf(value)
			return nil
		})
		switch {
		case err != nil:
			return 0, err
		case !ok && middle >= t.first.Load(): // else it was trimmed just now
			return 0, mayfly.Errorf(mayfly.Corrupt, "record %d of %s/%d is missing", middle, stream, partition)
		case !ok || found < at:
			low = middle + 1
		default:
			high = middle
		}
	}
	return low, nil
}
