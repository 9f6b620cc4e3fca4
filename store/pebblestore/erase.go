package pebblestore

import (
	"context"
	"encoding/binary"

	"github.com/mayflyhq/mayfly"
)

// EraseDeleted makes the database give up the bytes of rows, bodies and events that
// were deleted or overwritten before the call: after it they are in no file. It
// flushes, removes old write-ahead logs and compacts every table that may still hold
// such bytes, so call it rarely. It records now as the time of the last run.
func (s *Store) EraseDeleted(ctx context.Context, now mayfly.Instant) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	if err := s.base.EraseDeleted(ctx); err != nil {
		return readError("erase deleted rows", err)
	}
	if err := s.begin(ctx); err != nil {
		return err
	}
	w := &writing{batch: s.db.NewBatch()}
	if err := w.batch.Set([]byte{metaPrefix, metaErased}, binary.BigEndian.AppendUint64(nil, uint64(now)), nil); err != nil {
		s.leave()
		return readError("erase deleted rows", err)
	}
	return s.write(ctx, w)
}

// LastErased returns when EraseDeleted last finished, by the time it was given; 0 is
// never.
func (s *Store) LastErased(ctx context.Context) (at mayfly.Instant, err error) {
	if err := s.begin(ctx); err != nil {
		return 0, err
	}
	defer s.leave()
	_, err = s.get([]byte{metaPrefix, metaErased}, func(value []byte) error {
		if len(value) != 8 {
			return mayfly.Errorf(mayfly.Corrupt, "the time of the last erasure has %d bytes, not 8", len(value))
		}
		at = mayfly.Instant(binary.BigEndian.Uint64(value))
		return nil
	})
	if err != nil {
		return 0, readError("last erasure", err)
	}
	return at, nil
}
