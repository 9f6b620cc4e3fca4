package s3store

import (
	"context"
	"fmt"
	"slices"

	"github.com/minio/minio-go/v7"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// bulk is how many objects one request deletes.
const bulk = 1000

// Delete implements store.Blobs.
func (s *Store) Delete(ctx context.Context, keys ...mayfly.BlobKey) error {
	for _, key := range keys {
		if err := store.CheckBlobKey(key); err != nil {
			return err
		}
	}
	keys = slices.Clone(keys)
	slices.Sort(keys)
	for chunk := range slices.Chunk(slices.Compact(keys), bulk) {
		names := make([]string, len(chunk))
		for i, key := range chunk {
			names[i] = s.name(key)
		}
		if err := s.remove(ctx, s.writes(chunk...), names...); err != nil {
			return fmt.Errorf("delete: %w", err)
		}
	}
	return nil
}

// remove deletes objects in one request, and those of them again that the server
// did not say it had deleted.
func (s *Store) remove(ctx context.Context, cost []share, names ...string) error {
	left := map[string]bool{}
	for _, name := range names {
		left[name] = true
	}
	return s.try(ctx, cost, func() error {
		ctx, cancel := s.bounded(ctx, 0)
		defer cancel()
		todo := func(yield func(minio.ObjectInfo) bool) {
			for _, name := range names {
				if left[name] && !yield(minio.ObjectInfo{Key: name}) {
					return
				}
			}
		}
		results, err := s.server.core.RemoveObjectsWithIter(ctx, s.opts.Bucket, todo, minio.RemoveObjectsOptions{})
		if err != nil {
			return err
		}
		var failed error
		for r := range results {
			switch {
			case r.Err == nil || hasCode(r.Err, "NoSuchKey"):
				delete(left, r.ObjectName)
			case failed == nil:
				failed = r.Err
			}
		}
		if failed == nil && len(left) > 0 {
			failed = mayfly.Errorf(mayfly.Unavailable, "the server does not say that it has deleted %d of %d objects", len(left), len(names))
		}
		return failed
	})
}
