package pebblestore

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// A partition of a stream holds the events of one shard of items, so that the
// events of an item are in one partition and in order.
const (
	streams    = 2
	partitions = mayfly.Shards
)

// A record holds an event and, in front of it, the highest At of its partition so
// far, which allows a binary search by time although At is not in order.
const (
	recordHead = 8
	recordSize = recordHead + 1 + 16 + 4 + 1 + 1 + 8 + 16
)

// tail is the end of one partition. Sequence numbers have no gaps: a number is
// assigned and its record made visible under the partition's lock, so that no
// reader passes a number whose record is not visible yet.
type tail struct {
	next uint64         // under the partition's lock
	high mayfly.Instant // under the partition's lock

	// Readers see only records before end, which are durable: a reader must not act
	// on an event that a power loss could undo.
	end   atomic.Uint64
	first atomic.Uint64 // the first record that was not trimmed
}

// mark is the new end of a partition, valid once a batch is durable.
type mark struct {
	tail int
	end  uint64
}

// tails are the ends of all partitions and the readers that wait for them to move.
type tails struct {
	tail  [streams * partitions]tail
	added [streams]broadcast // records became durable

	trimming sync.Mutex
	mu       sync.Mutex
	groups   map[string]bool // groups with an open reader, by key
}

func (l *tails) init() { l.groups = make(map[string]bool) }

func tailIndex(stream mayfly.Stream, partition uint32) int {
	return int(stream-mayfly.Births)*partitions + int(partition)
}

// place returns the stream and partition of an event.
func place(e *mayfly.Event) (mayfly.Stream, uint32) { return e.Stream(), uint32(e.Shard()) }

func appendLogLocks(w []lock, list []mayfly.Event) []lock {
	for i := range list {
		if n := logLock(place(&list[i])); len(w) == 0 || w[len(w)-1] != n {
			w = append(w, n)
		}
	}
	return w
}

// recover reads the ends of all partitions from the database.
func (l *tails) recover(db *pebble.DB) error {
	iter, err := db.NewIter(nil)
	if err != nil {
		return err
	}
	for i := range l.tail {
		t := &l.tail[i]
		stream, partition := mayfly.Births+mayfly.Stream(i/partitions), uint32(i%partitions)
		if err = t.recover(db, iter, stream, partition); err != nil {
			break
		}
		t.end.Store(t.next)
	}
	return errors.Join(err, iter.Close())
}

func (t *tail) recover(db *pebble.DB, iter *pebble.Iterator, stream mayfly.Stream, partition uint32) error {
	value, closer, err := db.Get(firstKey(stream, partition))
	if err == nil {
		if len(value) != 8 {
			err = mayfly.Errorf(mayfly.Corrupt, "the start of log partition %s/%d has %d bytes, not 8", stream, partition, len(value))
		} else {
			t.next = binary.BigEndian.Uint64(value)
		}
		err = errors.Join(err, closer.Close())
	} else if errors.Is(err, pebble.ErrNotFound) {
		err = nil
	}
	if err != nil {
		return err
	}
	t.first.Store(t.next)
	prefix := logKey(stream, partition, 0)[:3]
	if !iter.SeekLT(after(prefix)) || string(iter.Key()[:min(3, len(iter.Key()))]) != string(prefix) {
		return iter.Error()
	}
	key := iter.Key()
	if value, err = iter.ValueAndErr(); err != nil {
		return err
	}
	if len(key) != logKeySize || len(value) != recordSize {
		return mayfly.Errorf(mayfly.Corrupt, "log record %x has %d bytes, not %d", key, len(value), recordSize)
	}
	t.next, t.high = binary.BigEndian.Uint64(key[3:])+1, highOf(value)
	return nil
}

func highOf(value []byte) mayfly.Instant { return mayfly.Instant(binary.BigEndian.Uint64(value)) }

// add numbers the events and writes them into the batch. The caller must hold the
// locks of their partitions until the batch is visible.
func (l *tails) add(w *writing, list []mayfly.Event) {
	for i := range list {
		e := &list[i]
		stream, partition := place(e)
		n := tailIndex(stream, partition)
		t := &l.tail[n]
		t.high = max(t.high, e.At)
		op := w.batch.SetDeferred(logKeySize, recordSize)
		putLogKey(op.Key, stream, partition, t.next)
		binary.BigEndian.PutUint64(op.Value, uint64(t.high))
		store.AppendEvent(op.Value[:recordHead], *e)
		_ = op.Finish() // fails for indexed batches only
		t.next++
		w.mark(n, t.next)
	}
}

// mark notes that the batch moves the end of a partition.
func (w *writing) mark(n int, end uint64) {
	for i := len(w.marks) - 1; i >= 0; i-- {
		if w.marks[i].tail == n {
			w.marks[i].end = end
			return
		}
	}
	w.marks = append(w.marks, mark{tail: n, end: end})
}

// durable moves the ends to marks and wakes readers. Records with lower numbers are
// durable too, because the write-ahead log is written in order of visibility.
func (l *tails) durable(marks []mark) {
	for _, m := range marks {
		raise(&l.tail[m.tail].end, m.end)
		l.added[m.tail/partitions].send()
	}
}

// raise sets v to the higher of v and to.
func raise(v *atomic.Uint64, to uint64) {
	for now := v.Load(); now < to && !v.CompareAndSwap(now, to); now = v.Load() {
	}
}

// broadcast wakes all goroutines that wait for it.
type broadcast struct {
	mu   sync.Mutex
	sent chan struct{} // nil while no goroutine waits
}

// next returns a channel that the next send closes. Call it before looking for
// records, so that a send between the look and the wait is not missed.
func (b *broadcast) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sent == nil {
		b.sent = make(chan struct{})
	}
	return b.sent
}

func (b *broadcast) send() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sent != nil {
		close(b.sent)
		b.sent = nil
	}
}

// Append implements store.Log.
func (s events) Append(ctx context.Context, list ...mayfly.Event) error {
	var b store.Batch
	b.Append(list...)
	return s.Writer().Commit(ctx, &b)
}

// pointTrim is how many records of a partition are deleted one by one at most; for
// more, one range deletion is cheaper (trap 22).
const pointTrim = 256

// Trim implements store.Log. It deletes the records of each partition up to the
// first event that is young enough; an older event after that one stays until that
// one is deleted.
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
		// Move first before the records are deleted, so that no reader finds one missing.
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
		// It keeps the sequence numbers when no record is left that shows them.
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

// since returns the number of the first record whose event happened at or after at,
// or the end. It searches for the highest At so far, which never falls.
func (s *Store) since(stream mayfly.Stream, partition uint32, at mayfly.Instant) (uint64, error) {
	t := &s.log.tail[tailIndex(stream, partition)]
	low, high := t.first.Load(), t.end.Load()
	for low < high {
		middle := low + (high-low)/2
		var found mayfly.Instant
		ok, err := s.get(logKey(stream, partition, middle), func(value []byte) error {
			if len(value) != recordSize {
				return mayfly.Errorf(mayfly.Corrupt, "log record %d of %s/%d has %d bytes", middle, stream, partition, len(value))
			}
			found = highOf(value)
			return nil
		})
		switch {
		case err != nil:
			return 0, err
		case !ok && middle >= t.first.Load(): // otherwise it was trimmed meanwhile
			return 0, mayfly.Errorf(mayfly.Corrupt, "log record %d of %s/%d is missing", middle, stream, partition)
		case !ok || found < at:
			low = middle + 1
		default:
			high = middle
		}
	}
	return low, nil
}
