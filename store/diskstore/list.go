package diskstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// CopyTo implements store.Blobs. Every byte passes its checksum on the way.
func (s *Store) CopyTo(ctx context.Context, to store.Blobs, from, as mayfly.BlobKey) (store.Object, error) {
	r, _, err := s.Open(ctx, from, store.Span{})
	if err != nil {
		return store.Object{}, fmt.Errorf("copy %s: %w", from, err)
	}
	copied, err := to.Put(ctx, as, r)
	if err = errors.Join(err, r.Close()); err != nil {
		return store.Object{}, fmt.Errorf("copy %s: %w", from, err)
	}
	return copied, nil
}

// List implements store.Blobs. from and to may be any text.
func (s *Store) List(ctx context.Context, from, to mayfly.BlobKey, limit int) (listed []store.Listed, err error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	bounds := &pebble.IterOptions{LowerBound: recordKey(from), UpperBound: []byte{tableRecord + 1}}
	if to != "" {
		bounds.UpperBound = recordKey(to)
	}
	if limit <= 0 || bytes.Compare(bounds.LowerBound, bounds.UpperBound) >= 0 {
		return nil, nil
	}
	iter, err := s.db.NewIter(bounds)
	if err != nil {
		return nil, failed("list", err)
	}
	defer func() {
		if closed := iter.Close(); err == nil && closed != nil {
			err = failed("list", closed)
		}
	}()
	for ok := iter.First(); ok && len(listed) < limit; ok = iter.Next() {
		if err := ctx.Err(); err != nil {
			return nil, mayfly.Wrap(mayfly.Unavailable, err, "")
		}
		rec, err := decodeRecord(iter.Value())
		if err != nil {
			return nil, err
		}
		listed = append(listed, store.Listed{Key: mayfly.BlobKey(iter.Key()[1:]), Size: rec.size})
	}
	return listed, nil
}

// Presign implements store.Blobs: a folder has no address that a browser could
// reach.
func (s *Store) Presign(context.Context, store.Access, mayfly.BlobKey, time.Duration) (string, error) {
	return "", mayfly.Errorf(mayfly.Unsupported, "a tier on a folder has no addresses of its own")
}
