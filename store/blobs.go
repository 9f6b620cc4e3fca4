package store

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/mayflyhq/mayfly"
)

// Blobs is one tier of media storage, hot or cold. Objects are immutable: a key
// is written by one owner, in one generation (L11).
type Blobs interface {
	// Put streams r to key and returns a description of the object, durable on
	// return. It replaces an existing object: a reader sees the old or the new one,
	// never a mix. After an error or a crash the key holds the old object, the
	// complete new one, or nothing. Errors: that of r, Full, Invalid (the key),
	// Unavailable.
	Put(ctx context.Context, key mayfly.BlobKey, r io.Reader) (Object, error)

	// Open reads an object or a range of it. A reader that is open when the object
	// is deleted can finish (ST13). Object describes the whole object, also for a
	// range. Errors: NotFound, Invalid (a range that starts after the end), Corrupt
	// (also from Read), Unavailable.
	Open(ctx context.Context, key mayfly.BlobKey, span Span) (io.ReadCloser, Object, error)

	// Stat describes the object at key. Errors: NotFound, Unavailable.
	Stat(ctx context.Context, key mayfly.BlobKey) (Object, error)

	// CopyTo copies an object to another tier or another key, durable on return. If
	// both are on the same store, the store copies. The result is not a verification
	// (L9): read the copy back for that.
	CopyTo(ctx context.Context, to Blobs, from, as mayfly.BlobKey) (Object, error)

	// Delete deletes objects; an absent one is no error. Durable on return. After an
	// error any of them may be deleted, now or later.
	Delete(ctx context.Context, keys ...mayfly.BlobKey) error

	// PresignGet returns a URL with which its holder can read key directly, for a
	// limited time. Errors: Unsupported if the tier has no address.
	PresignGet(ctx context.Context, key mayfly.BlobKey, lasts time.Duration) (string, error)

	// PresignPut returns a URL with which its holder can write an object of exactly
	// length bytes at key directly, for a limited time. Errors: Unsupported if the
	// tier has no address.
	PresignPut(ctx context.Context, key mayfly.BlobKey, length int64, lasts time.Duration) (string, error)

	// List returns at most limit keys in byte order, from from (included) to to
	// (excluded; empty means the end).
	List(ctx context.Context, from, to mayfly.BlobKey, limit int) ([]Listed, error)
}

// Object is what a tier holds at a key.
type Object struct {
	Key    mayfly.BlobKey
	Size   int64
	SHA256 [32]byte
}

// Listed is one key of a listing.
type Listed struct {
	Key  mayfly.BlobKey
	Size int64
}

// Span is a range of an object: Length bytes from Offset, to the end when
// Length is 0. The zero Span is the whole object.
type Span struct {
	Offset, Length int64
}

// Checksummed is a tier whose server computes hashes. Stat may return the hash that the
// writer sent, and that a copy took over: that is no verification (L9), but Checksum
// is.
type Checksummed interface {
	// Checksum returns the SHA-256 that the server computed over the stored object.
	// Errors: NotFound, Unsupported (not available from this server or for this
	// object: read it back), Corrupt (it differs from the writer's hash), Unavailable.
	Checksum(ctx context.Context, key mayfly.BlobKey) ([32]byte, error)
}

// maxBlobKey is the longest key in bytes. Keys (L11) have about thirty, and a name on
// S3 may have 1,024 including the tier's prefix.
const maxBlobKey = 512

// CheckBlobKey returns Invalid unless key has the form of L11. Every driver of Blobs
// calls it first, because keys become paths.
func CheckBlobKey(key mayfly.BlobKey) error {
	if len(key) > maxBlobKey {
		return mayfly.Errorf(mayfly.Invalid, "key of %d bytes is longer than %d", len(key), maxBlobKey)
	}
	for part := range strings.SplitSeq(string(key), "/") {
		if part == "" || strings.IndexFunc(part, notInKey) >= 0 {
			return mayfly.Errorf(mayfly.Invalid, "key %q is not made of 0-9 A-Z a-z _ - between single slashes", key)
		}
	}
	return nil
}

func notInKey(r rune) bool {
	switch {
	case r >= '0' && r <= '9', r >= 'A' && r <= 'Z', r >= 'a' && r <= 'z', r == '_', r == '-':
		return false
	}
	return true
}
