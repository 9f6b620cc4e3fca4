package pebblestore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/diskfs"
)

// reader reads one stream for one group.
type reader struct {
	s      *Store
	stream mayfly.Stream
	key    []byte             // of the group's committed positions
	at     [partitions]uint64 // the next number to read
	start  uint32             // the partition that the next call reads first
	closed bool
}

const maxGroup = 128

// Reader implements store.Log.
func (s events) Reader(ctx context.Context, stream mayfly.Stream, group string) (store.Reader, error) {
	if stream != mayfly.Births && stream != mayfly.Ends {
		return nil, mayfly.Errorf(mayfly.Invalid, "unknown stream %s", stream)
	}
	if group == "" || len(group) > maxGroup {
		return nil, mayfly.Errorf(mayfly.Invalid, "the name of the group has %d bytes; it must have 1 to %d", len(group), maxGroup)
	}
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	r := &reader{s: s.Store, stream: stream, key: append([]byte{metaPrefix, metaGroup, byte(stream)}, group...)}
	if !s.log.open(r.key) {
		return nil, mayfly.Errorf(mayfly.Conflict, "group %q has an open reader of %s already; close it first", group, stream)
	}
	if err := r.resume(); err != nil {
		s.log.release(r.key)
		return nil, readError("group "+group, err)
	}
	return r, nil
}

// open marks the group as open, and reports whether it was not open before.
func (l *tails) open(key []byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.groups[string(key)] {
		return false
	}
	l.groups[string(key)] = true
	return true
}

func (l *tails) release(key []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.groups, string(key))
}

func (r *reader) tail(partition int) *tail {
	return &r.s.log.tail[tailIndex(r.stream, uint32(partition))]
}

// resume moves to the group's committed positions; a new group begins at the oldest
// record.
func (r *reader) resume() error {
	_, err := r.s.get(r.key, func(value []byte) error {
		if len(value) != 8*partitions {
			return mayfly.Errorf(mayfly.Corrupt, "the positions of the group have %d bytes, not %d", len(value), 8*partitions)
		}
		for p := range r.at {
			r.at[p] = min(binary.BigEndian.Uint64(value[8*p:]), r.tail(p).end.Load())
		}
		return nil
	})
	return err
}

func (r *reader) begin(ctx context.Context) error {
	if r.closed {
		return mayfly.Errorf(mayfly.Invalid, "the reader is closed")
	}
	return r.s.begin(ctx)
}

// Next implements store.Reader.
func (r *reader) Next(ctx context.Context, limit int) ([]store.Record, error) {
	if limit <= 0 {
		return nil, mayfly.Errorf(mayfly.Invalid, "the limit of %d records is not positive", limit)
	}
	for {
		added := r.s.log.added[r.stream-mayfly.Births].next()
		records, err := r.read(ctx, limit)
		if err != nil || len(records) > 0 {
			return records, err
		}
		select {
		case <-added:
		case <-ctx.Done():
			return nil, mayfly.Wrap(mayfly.Unavailable, fmt.Errorf("read %s: %w", r.stream, ctx.Err()), "")
		case <-r.s.base.Closing():
			return nil, diskfs.ErrClosed()
		case <-r.s.fuse.Blown():
			return nil, r.s.fuse.Err()
		}
	}
}

// read returns the records that are there. It begins with another partition each
// time, so that a busy one does not keep the others waiting.
func (r *reader) read(ctx context.Context, limit int) (records []store.Record, err error) {
	if err := r.begin(ctx); err != nil {
		return nil, err
	}
	defer r.s.leave()
	waiting := r.lag()
	if waiting == 0 {
		return nil, nil
	}
	var ends [partitions]uint64 // read before the iterator is made, which then sees all of them
	for p := range ends {
		ends[p] = r.tail(p).end.Load()
	}
	prefix := []byte{logPrefix, byte(r.stream)}
	iter, err := r.s.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: after(prefix)})
	if err != nil {
		return nil, readError("read "+r.stream.String(), err)
	}
	records = make([]store.Record, 0, min(int64(limit), waiting))
	at := r.at // stored only if all partitions could be read
	for n := range uint32(partitions) {
		p := (r.start + n) % partitions
		stop := min(ends[p], max(at[p], r.tail(int(p)).first.Load())+uint64(limit-len(records)))
		if records, err = r.readPartition(iter, p, &at[p], stop, records); err != nil || len(records) == limit {
			break
		}
	}
	if err = errors.Join(err, iter.Close()); err != nil {
		return nil, readError("read "+r.stream.String(), err)
	}
	r.at, r.start = at, (r.start+1)%partitions
	return records, nil
}

// readPartition reads the records from at to stop, and advances at.
func (r *reader) readPartition(iter *pebble.Iterator, p uint32, at *uint64, stop uint64, records []store.Record) ([]store.Record, error) {
	first := &r.tail(int(p)).first
	*at = max(*at, first.Load())
	if *at >= stop {
		return records, nil
	}
	key := logKey(r.stream, p, *at)
	for ok := iter.SeekGE(key); *at < stop; ok = iter.Next() {
		putLogKey(key, r.stream, p, *at)
		if !ok || !bytes.Equal(iter.Key(), key) {
			if err := iter.Error(); err != nil {
				return records, err
			}
			if *at < first.Load() { // trimmed meanwhile; the next call begins after it
				return records, nil
			}
			return records, mayfly.Errorf(mayfly.Corrupt, "log record %d of %s/%d is missing", *at, r.stream, p)
		}
		value, err := iter.ValueAndErr()
		if err != nil {
			return records, err
		}
		event, err := readRecord(value)
		if err != nil {
			return records, fmt.Errorf("log record %d of %s/%d: %w", *at, r.stream, p, err)
		}
		records = append(records, store.Record{Partition: p, Offset: *at, Event: event})
		*at++
	}
	return records, nil
}

func readRecord(value []byte) (mayfly.Event, error) {
	if len(value) != recordSize {
		return mayfly.Event{}, mayfly.Errorf(mayfly.Corrupt, "a log record has %d bytes, not %d", len(value), recordSize)
	}
	return store.ReadEvent(value[recordHead:])
}

func (r *reader) lag() (n int64) {
	for p := range r.at {
		t := r.tail(p)
		if end, at := t.end.Load(), max(r.at[p], t.first.Load()); end > at {
			n += int64(end - at)
		}
	}
	return n
}

// Commit implements store.Reader.
func (r *reader) Commit(ctx context.Context) error {
	if err := r.begin(ctx); err != nil {
		return err
	}
	value := make([]byte, 0, 8*partitions)
	for _, at := range r.at {
		value = binary.BigEndian.AppendUint64(value, at)
	}
	w := &writing{batch: r.s.db.NewBatch()}
	if err := w.batch.Set(r.key, value, nil); err != nil {
		r.s.leave()
		return readError("commit positions", err)
	}
	return r.s.write(ctx, w)
}

// Seek implements store.Reader.
func (r *reader) Seek(ctx context.Context, at mayfly.Instant) error {
	if err := r.begin(ctx); err != nil {
		return err
	}
	defer r.s.leave()
	var places [partitions]uint64
	for p := range places {
		places[p] = r.tail(p).first.Load()
		if at != 0 {
			var err error
			if places[p], err = r.s.since(r.stream, uint32(p), at); err != nil {
				return readError("seek", err)
			}
		}
	}
	r.at = places
	return nil
}

// Lag implements store.Reader.
func (r *reader) Lag(ctx context.Context) (int64, error) {
	if err := r.begin(ctx); err != nil {
		return 0, err
	}
	defer r.s.leave()
	return r.lag(), nil
}

// Close implements store.Reader.
func (r *reader) Close() error {
	if !r.closed {
		r.closed = true
		r.s.log.release(r.key)
	}
	return nil
}
