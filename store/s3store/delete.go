package s3store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

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

// remove deletes objects in one request. Retries contain only the objects whose
// deletion the server has not confirmed.
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

// abandoned is the age after which an upload counts as abandoned (L12).
const abandoned = 24 * time.Hour

// Reclaimed counts what Reclaim removed.
type Reclaimed struct {
	Uploads int // uploads in parts that were never completed
	Staged  int // completed objects that were never copied to their key
}

// Reclaim ends uploads in parts of this tier that began a day ago or earlier, and
// deletes the objects they left behind: a server would keep and bill both for ever.
// If one fails, Reclaim goes on with the others and reports the error.
func (s *Store) Reclaim(ctx context.Context, now mayfly.Instant) (done Reclaimed, err error) {
	before := now.Add(-abandoned).Time()
	uploads, err := s.uploadsBefore(ctx, before)
	if err != nil {
		return done, fmt.Errorf("reclaim: %w", err)
	}
	var errs []error
	for _, u := range uploads {
		if err := u.abort(ctx); err != nil {
			errs = append(errs, err)
			continue
		}
		done.Uploads++
	}
	names, err := s.stagedBefore(ctx, before)
	if err == nil && len(names) > 0 {
		err = s.remove(ctx, s.writes(""), names...)
	}
	if err != nil {
		errs = append(errs, err)
	} else {
		done.Staged = len(names)
	}
	if err := errors.Join(errs...); err != nil {
		return done, fmt.Errorf("reclaim: %w", err)
	}
	return done, nil
}

// uploadsBefore lists one page of uploads. The caller ends them, so that the next call
// returns the next ones.
func (s *Store) uploadsBefore(ctx context.Context, before time.Time) (old []*upload, err error) {
	key, id := "", ""
	for {
		var page minio.ListMultipartUploadsResult
		err := s.try(ctx, s.reads(""), func() (err error) {
			ctx, cancel := s.bounded(ctx, 0)
			defer cancel()
			page, err = s.server.core.ListMultipartUploads(ctx, s.opts.Bucket, s.root, key, id, "", bulk)
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, u := range page.Uploads {
			name, ours := strings.CutPrefix(u.Key, s.root)
			ours = ours && (strings.HasPrefix(name, stagedNames) || store.CheckBlobKey(mayfly.BlobKey(name)) == nil)
			if ours && !u.Initiated.IsZero() && u.Initiated.Before(before) {
				old = append(old, &upload{s: s, key: mayfly.BlobKey(name), name: u.Key, id: u.UploadID})
			}
		}
		if !page.IsTruncated || len(old) >= bulk || page.NextKeyMarker == key && page.NextUploadIDMarker == id {
			return old, nil
		}
		key, id = page.NextKeyMarker, page.NextUploadIDMarker
	}
}

// stagedBefore lists one page of objects that were completed but never copied to
// their key, and of those that a probe left behind.
func (s *Store) stagedBefore(ctx context.Context, before time.Time) (names []string, err error) {
	opts := minio.ListObjectsOptions{Prefix: s.root + afterKeys, Recursive: true, FetchOwner: new(bool)}
	err = s.try(ctx, s.reads(""), func() error {
		ctx, cancel := s.bounded(ctx, 0)
		defer cancel()
		names = nil
		for object := range s.server.core.ListObjectsIter(ctx, s.opts.Bucket, opts) {
			if object.Err != nil {
				return object.Err
			}
			if object.LastModified.Before(before) {
				names = append(names, object.Key)
			}
			if len(names) == bulk {
				return nil
			}
		}
		return ctx.Err()
	})
	return names, err
}
