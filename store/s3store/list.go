package s3store

import (
	"context"
	"fmt"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// List implements store.Blobs. from and to may be any text. Objects whose name is
// not a valid key are not listed.
func (s *Store) List(ctx context.Context, from, to mayfly.BlobKey, limit int) (listed []store.Listed, err error) {
	if limit <= 0 || to != "" && from >= to || from >= afterKeys {
		return nil, nil
	}
	if to == "" || to > afterKeys {
		to = afterKeys
	}
	for after := justBefore(from); len(listed) < limit; {
		page, last, err := s.page(ctx, after, from, to, min(limit-len(listed), bulk))
		if err != nil {
			return nil, fmt.Errorf("list: %w", err)
		}
		listed = append(listed, page...)
		if last == "" {
			break
		}
		after = last
	}
	return listed, nil
}

// page reads up to n names after the given one. last is the name to continue after,
// empty at the end.
func (s *Store) page(ctx context.Context, after string, from, to mayfly.BlobKey, n int) (listed []store.Listed, last string, err error) {
	opts := minio.ListObjectsOptions{
		Prefix: s.root + common(string(from), string(to)), Recursive: true, MaxKeys: n, FetchOwner: new(bool),
	}
	if after != "" {
		opts.StartAfter = s.root + after
	}
	err = s.try(ctx, s.reads(from), func() error {
		ctx, cancel := s.bounded(ctx, 0)
		defer cancel()
		listed, last = nil, ""
		before, seen := after, 0
		for object := range s.server.core.ListObjectsIter(ctx, s.opts.Bucket, opts) {
			if object.Err != nil {
				return object.Err
			}
			name, ok := strings.CutPrefix(object.Key, s.root)
			if !ok || name <= before {
				return mayfly.Errorf(mayfly.Unsupported, "the server lists %q behind %q", object.Key, s.root+before).
					WithHint("listings have to be in byte order of names: a directory bucket has no order")
			}
			if before = name; name >= string(to) {
				return nil
			}
			if key := mayfly.BlobKey(name); key >= from && store.CheckBlobKey(key) == nil {
				listed = append(listed, store.Listed{Key: key, Size: object.Size})
			}
			if seen++; seen == n {
				last = name
				return nil
			}
		}
		return ctx.Err() // the library ends a cancelled listing without an error
	})
	return listed, last, err
}

// common returns the common prefix of from and to.
func common(from, to string) string {
	n := 0
	for n < len(from) && n < len(to) && from[n] == to[n] {
		n++
	}
	return from[:n]
}

// justBefore returns a text less than from with no key between it and from: a server
// lists the names after the one that it is given.
func justBefore(from mayfly.BlobKey) string {
	if from == "" {
		return ""
	}
	head, last := from[:len(from)-1], from[len(from)-1]
	if last == 0 {
		return string(head)
	}
	return string(head) + string(rune(min(last-1, 0x7e))) + afterKeys
}
