package s3store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/minio/minio-go/v7"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// headBytes is how much of a stream is kept in memory; what is longer is spooled.
const headBytes = 64 * kibibyte

// Put implements store.Blobs. An object of up to PartBytes is sent in one request with
// its hash; a larger one is sent in parts under an internal name, and copied to its
// key when its hash is known.
func (s *Store) Put(ctx context.Context, key mayfly.BlobKey, r io.Reader) (store.Object, error) {
	if err := store.CheckBlobKey(key); err != nil {
		return store.Object{}, err
	}
	o, err := s.put(ctx, key, r)
	if err != nil {
		return store.Object{}, fmt.Errorf("put %s: %w", key, err)
	}
	return o, nil
}

func (s *Store) put(ctx context.Context, key mayfly.BlobKey, r io.Reader) (o store.Object, err error) {
	head := s.server.heads.Get().(*[]byte)
	defer s.server.heads.Put(head)
	n, ended, err := fill(ctx, *head, r)
	if err != nil {
		return store.Object{}, err
	}
	sums := &blockSums{}
	if ended {
		_, _ = sums.Write((*head)[:n])
		return s.putWhole(ctx, key, payload{bytes.NewReader((*head)[:n]), int64(n), sha256.Sum256((*head)[:n])}, sums.text())
	}
	p, err := s.server.spool.part()
	if err != nil {
		return store.Object{}, err
	}
	defer p.close()
	hash := sha256.New()
	noted := io.MultiWriter(hash, sums)
	if err := p.write((*head)[:n], noted); err != nil {
		return store.Object{}, err
	}
	ended, err = p.fill(ctx, r, *head, s.server.opts.PartBytes, noted)
	if err != nil {
		return store.Object{}, err
	}
	if ended {
		giveBack, err := s.server.takeSlot(ctx)
		if err != nil {
			return store.Object{}, err
		}
		defer giveBack()
		return s.putWhole(ctx, key, p.payload(), sums.text())
	}
	return s.putStaged(ctx, key, p, *head, r, hash, sums)
}

// maxEmpty is how often in a row a reader may return no bytes.
const maxEmpty = 100

// fill reads until room is full or the stream ends. It returns the reader's error:
// only io.EOF itself is the end, not an error that wraps it.
func fill(ctx context.Context, room []byte, r io.Reader) (n int, ended bool, err error) {
	for empty := 0; n < len(room); {
		if err := ctx.Err(); err != nil {
			return n, false, mayfly.Wrap(mayfly.Unavailable, err, "")
		}
		got, err := r.Read(room[n:])
		n += got
		switch {
		case err == io.EOF:
			return n, true, nil
		case err != nil:
			return n, false, err
		case got > 0:
			empty = 0
		default:
			if empty++; empty > maxEmpty {
				return n, false, io.ErrNoProgress
			}
		}
	}
	return n, false, nil
}

// putWhole sends an object in one request. Its hash is signed with the request, so
// that the server stores exactly these bytes or nothing. The hash is not sent as the
// object's checksum: a copy could take that over, whereas the server must compute the
// checksum of a copy (L9).
func (s *Store) putWhole(ctx context.Context, key mayfly.BlobKey, content payload, sums string) (store.Object, error) {
	o := store.Object{Key: key, Size: content.size, SHA256: content.hash}
	opts := minio.PutObjectOptions{
		StorageClass:         s.opts.Class,
		DisableContentSha256: true, // the library's hash of pieces; the request has the hash of the whole
		UserMetadata:         placing{hash: o.SHA256, sums: sums}.metadata(),
	}
	err := s.try(ctx, s.writes(key), func() error {
		ctx, cancel := s.bounded(ctx, o.Size)
		defer cancel()
		put, err := s.server.core.PutObject(ctx, s.opts.Bucket, s.name(key), content.reader(), o.Size, "", hex.EncodeToString(o.SHA256[:]), opts)
		if err == nil && put.ETag == "" { // a proxy may have answered instead
			err = mayfly.Errorf(mayfly.Unavailable, "the server does not say that it has stored %s", key)
		}
		return err
	})
	if err != nil {
		return store.Object{}, err
	}
	return o, nil
}

// putStaged puts an object in parts; p holds the first one, and buffer is used to
// read the others. Metadata must be sent before the first part, when the hash is not
// known yet: so the object is put under an internal name and then copied to its key
// with the hash. A failure leaves nothing at the key.
func (s *Store) putStaged(ctx context.Context, key mayfly.BlobKey, p *part, buffer []byte, r io.Reader, hash hash.Hash, sums *blockSums) (o store.Object, err error) {
	staged := s.freshName(stagedNames)
	u, err := s.begin(ctx, key, staged, placing{})
	if err != nil {
		return store.Object{}, err
	}
	o = store.Object{Key: key}
	for ended := false; p.size > 0; {
		o.Size += p.size
		err := u.sendSlotted(ctx, p.payload())
		if err == nil {
			err = p.reset()
		}
		if err == nil && !ended {
			ended, err = p.fill(ctx, r, buffer, s.server.opts.PartBytes, io.MultiWriter(hash, sums))
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
	// If this fails, Reclaim deletes it later.
	deleted := s.remove(context.WithoutCancel(ctx), s.writes(key), staged)
	if err != nil {
		return store.Object{}, errors.Join(err, deleted)
	}
	return o, nil
}
