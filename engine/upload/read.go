package upload

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// Open opens the copy of a medium that is stored under key, or a span of it. Read
// from its beginning to its end, the bytes are checked against the hash of the
// medium (I14). Errors: NotFound, Corrupt (also from Read), Unavailable.
func Open(ctx context.Context, tier store.Blobs, key mayfly.BlobKey, medium mayfly.Medium, span store.Span) (io.ReadCloser, error) {
	r, object, err := tier.Open(ctx, key, span)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", key, err)
	}
	if object.Size != medium.Size {
		err := mayfly.Errorf(mayfly.Corrupt, "%s has %d bytes, not %d", key, object.Size, medium.Size)
		return nil, errors.Join(err, r.Close())
	}
	if span.Offset == 0 && (span.Length == 0 || span.Length >= medium.Size) {
		r = &verified{ReadCloser: r, hash: sha256.New(), left: medium.Size, want: medium.SHA256, key: key}
	}
	return r, nil
}

// verified hashes what it reads. Bytes that are not those of the medium end in
// Corrupt and without the last of them: a client that was promised a length and
// received as many bytes would take them for the whole medium (I14).
type verified struct {
	io.ReadCloser
	hash hash.Hash
	left int64 // bytes that have not been read
	want [sha256.Size]byte
	key  mayfly.BlobKey
}

func (v *verified) Read(p []byte) (int, error) {
	n, err := v.ReadCloser.Read(p)
	v.hash.Write(p[:n])
	v.left -= int64(n)
	last := v.left <= 0 || errors.Is(err, io.EOF)
	if last && (v.left != 0 || [sha256.Size]byte(v.hash.Sum(nil)) != v.want) {
		return 0, mayfly.Errorf(mayfly.Corrupt, "%s is not what was uploaded", v.key)
	}
	return n, err
}
