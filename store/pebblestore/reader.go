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
)

// reader reads a stream for a group.
type reader struct {
	s      *Store
	stream mayfly.Stream
	key    []byte             // of the group's place
	at     [partitions]uint64 // the next number to read
	start  uint32             // the partition that the next call begins with
	closed bool
}

const maxGroup = 128

// Reader implements store.Log.
func (s events) Reader(ctx context.Context, stream mayfly.Stream, group string) (store.Reader, error) {
	if stream != mayfly.Births && stream != mayfly.Ends {
		return nil, mayfly.Errorf(mayfly.Invalid, "%s is not a stream", stream)
	}
	if group == "" || len(group) > maxGroup {
		return nil, mayfly.Errorf(mayfly.Invalid, "a group has a name of 1 to %d bytes", maxGroup)
	}
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	r := &reader{s: s.Store, stream: stream, key: append([]byte{metaPrefix, metaGroup, byte(stream)}, group...)}
	if !s.log.occupy(r.key) {
		return nil, mayfly.Errorf(mayfly.Conflict, "group %q reads %s already", group, stream)
	}
	if err := r.resume(); err != nil {
		s.log.vacate(r.key)
		return nil, readError("group "+group, err)
	}
	return r, nil
}

func (l *tails) occupy(key []byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.groups[string(key)] {
		return false
	}
	l.groups[string(key)] = true
	return true
}

func (l *tails) vacate(key []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.groups, string(key))
}

func (r *reader) tail(partition int) *tail {
	return &r.s.log.tail[tailIndex(r.stream, uint32(partition))]
}

// resume goes to where the group committed; a new one begins at the oldest.
func (r *reader) resume() error {
	_, err := r.s.get(r.key, func(value []byte) error {
		if len(value) != 8*partitions {
			return mayfly.Errorf(mayfly.Corrupt, "place of a group with %d bytes", len(value))
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
		return nil, mayfly.Errorf(mayfly.Invalid, "a limit of %d records", limit)
	}
	for {
		bell := r.s.log.bells[r.stream-mayfly.Births].wait()
		records, err := r.read(ctx, limit)
		if err != nil || len(records) > 0 {
			return records, err
		}
		select {
		case <-bell:
		case <-ctx.Done():
			return nil, mayfly.Wrap(mayfly.Unavailable, fmt.Errorf("read %s: %w", r.stream, ctx.Err()), "")
		case <-r.s.closing:
			return nil, errClosed()
		case <-r.s.fuse.Blown():
			return nil, r.s.fuse.Err()
		}
	}
}

// read takes what is there, beginning with another partition each time.
func (r *reader) read(ctx context.Context, limit int) (records []store.Record, err error) {
	if err := r.begin(ctx); err != nil {
		return nil, err
	}
	defer r.s.leave()
	waiting := r.lag()
	if waiting == 0 {
		return nil, nil
	}
	var ends [partitions]uint64 // asked before the iterator looks: it sees all of that
	for p := range ends {
		ends[p] = r.tail(p).end.Load()
	}
	prefix := []byte{logPrefix, byte(r.stream)}
	iter, err := r.s.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: after(prefix)})
	if err != nil {
		return nil, readError("read "+r.stream.String(), err)
	}
	records = make([]store.Record, 0, min(int64(limit), waiting))
	at := r.at // moved only when all went well
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

// readPartition reads on from at, which it moves, up to stop.
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
			if *at < first.Load() { // trimmed just now; the next call begins behind it
				return records, nil
			}
			return records, mayfly.Errorf(mayfly.Corrupt, "record %d of %s/%d is missing", *at, r.stream, p)
		}
		value, err := iter.ValueAndErr()
		if err != nil {
			return records, err
		}
		event, err := readRecord(value)
		if err != nil {
			return records, fmt.Errorf("record %d of %s/%d: %w", *at, r.stream, p, err)
		}
		records = append(records, store.Record{Partition: p, Offset: *at, Event: event})
		*at++
	}
	return records, nil
}

func readRecord(value []byte) (mayfly.Event, error) {
	if len(value) != recordSize {
		return mayfly.Event{}, mayfly.Errorf(mayfly.Corrupt, "record of %d bytes cannot be read", len(value))
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
		return readError("commit of a group", err)
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
		r.s.log.vacate(r.key)
	}
	return nil
}
