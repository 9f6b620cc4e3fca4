package s3store

import (
	"context"
	"errors"
	"fmt"

	"github.com/minio/minio-go/v7"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// CopyTo implements store.Blobs. Between tiers of one server the server copies; the
// copy gets the storage class of its tier.
func (s *Store) CopyTo(ctx context.Context, to store.Blobs, from, as mayfly.BlobKey) (store.Object, error) {
	for _, key := range []mayfly.BlobKey{from, as} {
		if err := store.CheckBlobKey(key); err != nil {
			return store.Object{}, err
		}
	}
	tier, ok := to.(*Store)
	o, err := store.Object{}, error(nil)
	if ok && tier.server == s.server {
		o, err = s.copyWithin(ctx, tier, from, as)
	} else {
		o, err = s.copyThrough(ctx, to, from, as)
	}
	if err != nil {
		return store.Object{}, fmt.Errorf("copy %s: %w", from, err)
	}
	return o, nil
}

// copyThrough copies by reading from this tier and writing to the other.
func (s *Store) copyThrough(ctx context.Context, to store.Blobs, from, as mayfly.BlobKey) (store.Object, error) {
	r, _, err := s.Open(ctx, from, store.Span{})
	if err != nil {
		return store.Object{}, err
	}
	o, err := to.Put(ctx, as, r)
	return o, errors.Join(err, r.Close())
}

// maxLooks is how often an object may be replaced while it is copied.
const maxLooks = 4

func (s *Store) copyWithin(ctx context.Context, to *Store, from, as mayfly.BlobKey) (store.Object, error) {
	for look := 1; ; look++ {
		h, err := s.head(ctx, from, s.name(from))
		if err != nil {
			return store.Object{}, err
		}
		src := source{bucket: s.opts.Bucket, name: s.name(from), size: h.Size, etag: h.etag}
		err = to.place(ctx, as, src, placing{hash: h.SHA256, sums: h.noted, class: to.opts.Class})
		switch {
		case err == nil:
			return store.Object{Key: as, Size: h.Size, SHA256: h.SHA256}, nil
		case !hasCode(err, "PreconditionFailed") || look >= maxLooks:
			return store.Object{}, err
		}
	}
}

// source is the object to copy from, as the server described it.
type source struct {
	bucket, name, etag string
	size               int64
}

// unchanged makes a copy fail if the source was replaced meanwhile, because the hash
// would belong to other bytes.
func (s source) unchanged() map[string]string {
	if s.etag == "" {
		return map[string]string{}
	}
	return map[string]string{"X-Amz-Copy-Source-If-Match": `"` + s.etag + `"`}
}

// place copies an object of the server to key, with its hash and storage class.
func (s *Store) place(ctx context.Context, key mayfly.BlobKey, from source, p placing) error {
	if from.size > s.server.opts.CopyBytes {
		return s.placeInParts(ctx, key, from, p)
	}
	return s.placeNamed(ctx, key, s.name(key), from, p)
}

// placeNamed copies in one request.
func (s *Store) placeNamed(ctx context.Context, key mayfly.BlobKey, name string, from source, p placing) error {
	header := from.unchanged()
	for name, value := range p.metadata() {
		header[name] = value
	}
	// REPLACE needs all metadata again; without it no storage class can be set.
	header["X-Amz-Metadata-Directive"] = "REPLACE"
	header["Content-Type"] = "application/octet-stream"
	header["X-Amz-Checksum-Algorithm"] = "SHA256" // the server's own, for Checksum
	if p.class != "" {
		header["X-Amz-Storage-Class"] = p.class
	}
	return s.try(ctx, s.writes(key), func() error {
		ctx, cancel := s.bounded(ctx, from.size)
		defer cancel()
		done, err := s.server.core.CopyObject(ctx, from.bucket, from.name, s.opts.Bucket, name, header, minio.CopySrcOptions{}, minio.PutObjectOptions{})
		if err == nil && done.ETag == "" { // a success response with an error in it
			err = mayfly.Errorf(mayfly.Unavailable, "the server does not say that it has copied %s", from.name)
		}
		return err
	})
}

// placeInParts copies an object that is too long for one request.
func (s *Store) placeInParts(ctx context.Context, key mayfly.BlobKey, from source, p placing) error {
	u, err := s.begin(ctx, key, s.name(key), p)
	if err != nil {
		return err
	}
	for offset := int64(0); offset < from.size; {
		length := min(s.server.opts.CopyBytes, from.size-offset)
		if err := u.copyFrom(ctx, from, offset, length); err != nil {
			return errors.Join(err, u.abort(ctx))
		}
		offset += length
	}
	_, err = u.complete(ctx, from.size)
	return err
}
