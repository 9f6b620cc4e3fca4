package s3store

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// putStaged puts an object in parts, the first of which is in part. What is noted
// beside an object has to be known before its first part is sent, and its hash is
// not: it is put under a name of ours, and copied to its own with the hash.
// Whatever stops it leaves no part at the key.
func (s *Store) putStaged(ctx context.Context, key mayfly.BlobKey, part []byte, r io.Reader) (o store.Object, err error) {
	staged := s.freshName(stagedNames)
	u, err := s.begin(ctx, key, staged, placing{})
	if err != nil {
		return store.Object{}, err
	}
	o = store.Object{Key: key}
	hash, sums := sha256.New(), &blockSums{}
	for n, ended := len(part), false; n > 0; {
		hash.Write(part[:n])
		_, _ = sums.Write(part[:n])
		o.Size += int64(n)
		err := u.send(ctx, part[:n])
		if n = 0; err == nil && !ended {
			n, ended, err = fill(ctx, part, r)
		}
		if err != nil {
			return store.Object{}, errors.Join(err, u.abort(ctx))
		}
	}
	o.SHA256 = [32]byte(hash.Sum(nil))
	h, err := u.complete(ctx, o.Size)
	if err == nil {
		from := source{bucket: s.opts.Bucket, name: staged, size: o.Size, etag: h.etag}
		err = s.place(ctx, key, from, placing{hash: o.SHA256, sums: sums.text(), class: s.opts.Class})
	}
	// What cannot be deleted now Reclaim deletes later: the object is there.
	deleted := s.remove(context.WithoutCancel(ctx), s.writes(key), staged)
	if err != nil {
		return store.Object{}, errors.Join(err, deleted)
	}
	return o, nil
}
