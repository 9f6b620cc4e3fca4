package pebblestore

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"

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

// A record is the highest At of its partition so far and the event. The first
// part makes a binary search by time exact although At is not in order.
const (
	recordHead = 8
	recordSize = recordHead + 1 + 16 + 4 + 1 + 1 + 8 + 16
)

// tail is the end of one partition. Numbers are dense: a number is given and
// its record made visible under the partition's lock, so that no reader passes
// a number whose record is yet to come.
type tail struct {
	next uint64         // under the partition's lock
	high mayfly.Instant // under the partition's lock

	// Readers see what is before end: durable records only. A reader who acted
	// on an event that a power loss takes back would tell of a birth that never was.
	end   atomic.Uint64
	first atomic.Uint64 // the first that is kept
}

// mark is the end of a partition once a batch is durable.
type mark struct {
	tail int
	end  uint64
}

// tails are the ends of all partitions, and who waits for them to move.
type tails struct {
	tail  [streams * partitions]tail
	bells [streams]bell

	trimming sync.Mutex
	mu       sync.Mutex
	groups   map[string]bool // who reads now, by key
}

func (l *tails) init() { l.groups = make(map[string]bool) }

func tailIndex(stream mayfly.Stream, partition uint32) int {
	return int(stream-mayfly.Births)*partitions + int(partition)
}

func place(e *mayfly.Event) (mayfly.Stream, uint32) { return e.Stream(), uint32(e.Shard()) }

func appendLogLocks(w []lock, list []mayfly.Event) []lock {
	for i := range list {
		if n := logLock(place(&list[i])); len(w) == 0 || w[len(w)-1] != n {
			w = append(w, n)
		}
	}
	return w
}

// recover finds the ends in the database.
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
			err = mayfly.Errorf(mayfly.Corrupt, "first of the log with %d bytes", len(value))
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
		return mayfly.Errorf(mayfly.Corrupt, "record %x of %d bytes", key, len(value))
	}
	t.next, t.high = binary.BigEndian.Uint64(key[3:])+1, highOf(value)
	return nil
}

func highOf(value []byte) mayfly.Instant { return mayfly.Instant(binary.BigEndian.Uint64(value)) }

// add numbers events and writes them into the batch. The caller holds the locks
// of their partitions until the batch is visible.
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

func (w *writing) mark(n int, end uint64) {
	for i := len(w.marks) - 1; i >= 0; i-- {
		if w.marks[i].tail == n {
			w.marks[i].end = end
			return
		}
	}
	w.marks = append(w.marks, mark{tail: n, end: end})
}

// durable shows readers what marks say. What was numbered before is durable
// too: one write-ahead log, written in the order of visibility.
func (l *tails) durable(marks []mark) {
	for _, m := range marks {
		raise(&l.tail[m.tail].end, m.end)
		l.bells[m.tail/partitions].ring()
	}
}

func raise(v *atomic.Uint64, to uint64) {
	for now := v.Load(); now < to && !v.CompareAndSwap(now, to); now = v.Load() {
	}
}

// Append implements store.Log.
func (s events) Append(ctx context.Context, list ...mayfly.Event) error {
	var b store.Batch
	b.Append(list...)
	return s.Writer().Commit(ctx, &b)
}
