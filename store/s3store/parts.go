package s3store

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"

	"github.com/minio/minio-go/v7"

	"github.com/mayflyhq/mayfly"
)

// upload is an object being put or copied in parts. The object appears when the upload
// is completed, as a whole.
type upload struct {
	s     *Store
	key   mayfly.BlobKey // whose token bucket is used
	name  string
	id    string
	mark  string
	parts []minio.CompletePart
}

// placing is the metadata and storage class of an object.
type placing struct {
	hash  [32]byte // none if zero
	sums  string   // none if empty
	class string
}

func (p placing) metadata() map[string]string {
	noted := map[string]string{}
	if p.hash != ([32]byte{}) {
		noted[hashHeader] = hex.EncodeToString(p.hash[:])
	}
	if p.sums != "" {
		noted[sumsHeader] = p.sums
	}
	return noted
}

// begin starts an upload. If the response is lost, Reclaim ends the upload later.
func (s *Store) begin(ctx context.Context, key mayfly.BlobKey, name string, p placing) (*upload, error) {
	u := &upload{s: s, key: key, name: name, mark: rand.Text()}
	noted := p.metadata()
	noted[markHeader] = u.mark
	err := s.try(ctx, s.writes(key), func() (err error) {
		ctx, cancel := s.bounded(ctx, 0)
		defer cancel()
		u.id, err = s.server.core.NewMultipartUpload(ctx, s.opts.Bucket, name, minio.PutObjectOptions{UserMetadata: noted, StorageClass: p.class})
		if err == nil && u.id == "" {
			err = mayfly.Errorf(mayfly.Unavailable, "the server began an upload without a name")
		}
		return err
	})
	return u, err
}

// next returns the number of the next part.
func (u *upload) next() (int, error) {
	if len(u.parts) >= maxParts {
		return 0, mayfly.Errorf(mayfly.TooLarge, "an object has more than %d parts", maxParts).WithHint("make the parts bigger")
	}
	return len(u.parts) + 1, nil
}

func (u *upload) add(p minio.CompletePart, err error) error {
	if err == nil && p.ETag == "" { // a success response with an error in it
		err = mayfly.Errorf(mayfly.Unavailable, "the server does not name a part that it took")
	}
	if err == nil {
		u.parts = append(u.parts, p)
	}
	return err
}

// sendSlotted sends the next part when a slot is free.
func (u *upload) sendSlotted(ctx context.Context, content payload) error {
	giveBack, err := u.s.server.takeSlot(ctx)
	if err != nil {
		return err
	}
	defer giveBack()
	return u.send(ctx, content)
}

// send sends the next part; its hash is signed with the request.
func (u *upload) send(ctx context.Context, content payload) error {
	n, err := u.next()
	if err != nil {
		return err
	}
	opts := minio.PutObjectPartOptions{Sha256Hex: hex.EncodeToString(content.hash[:]), DisableContentSha256: true}
	return u.s.try(ctx, u.s.writes(u.key), func() error {
		ctx, cancel := u.s.bounded(ctx, content.size)
		defer cancel()
		p, err := u.s.server.core.PutObjectPart(ctx, u.s.opts.Bucket, u.name, u.id, n, content.reader(), content.size, opts)
		return u.add(minio.CompletePart{PartNumber: n, ETag: p.ETag}, err)
	})
}

// copyFrom copies length bytes of another object as the next part.
func (u *upload) copyFrom(ctx context.Context, from source, offset, length int64) error {
	n, err := u.next()
	if err != nil {
		return err
	}
	return u.s.try(ctx, u.s.writes(u.key), func() error {
		ctx, cancel := u.s.bounded(ctx, length)
		defer cancel()
		p, err := u.s.server.core.CopyObjectPart(ctx, from.bucket, from.name, u.s.opts.Bucket, u.name, u.id, n, offset, length, from.unchanged())
		p.PartNumber = n
		return u.add(p, err)
	})
}

// complete makes the parts an object and returns its description. If the response to
// the first try was lost, the second try gets NoSuchUpload, or success because some
// object of that name exists: the mark shows whether it is this upload.
func (u *upload) complete(ctx context.Context, size int64) (held, error) {
	err := u.s.try(ctx, u.s.writes(u.key), func() error {
		ctx, cancel := u.s.bounded(ctx, size)
		defer cancel()
		_, err := u.s.server.core.CompleteMultipartUpload(ctx, u.s.opts.Bucket, u.name, u.id, u.parts, minio.PutObjectOptions{})
		return err
	})
	if err != nil && !hasCode(err, "NoSuchUpload") {
		return held{}, errors.Join(err, u.abort(ctx))
	}
	h, headErr := u.s.head(ctx, u.key, u.name)
	if headErr != nil || h.mark != u.mark || h.Size != size {
		return held{}, mayfly.Errorf(mayfly.Unavailable, "what was put in parts is not there: %v", errors.Join(err, headErr))
	}
	return h, nil
}

// abort ends the upload, also when ctx has ended. If it fails, Reclaim ends it later.
// An upload that does not exist any more is not an error.
func (u *upload) abort(ctx context.Context) error {
	ctx, cancel := u.s.bounded(context.WithoutCancel(ctx), 0)
	defer cancel()
	err := u.s.try(ctx, u.s.writes(u.key), func() error {
		return u.s.server.core.AbortMultipartUpload(ctx, u.s.opts.Bucket, u.name, u.id)
	})
	switch {
	case hasCode(err, "NoSuchUpload"):
		return nil
	case ctx.Err() != nil:
		return unanswered(err)
	}
	return err
}
