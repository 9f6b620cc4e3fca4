package store

import (
	"context"
	"io"
	"time"

	"github.com/mayflyhq/mayfly"
)

// Blobs is one tier of media storage, hot or cold. Objects are immutable: a key
// is written by one owner, in one generation (L11).
type Blobs interface {
	// Put streams r to key and answers with what was stored, durable on return.
	// It replaces an object of that key whole: a reader sees the old or the new
	// one, never a mix. After an error, or a crash before it returned, the key
	// holds the old object, the whole new one, or nothing, never a part.
	// Errors: what r returned, Full, Invalid (the key), Unavailable.
	Put(ctx context.Context, key mayfly.BlobKey, r io.Reader) (Object, error)

	// Open reads an object or a range of it. A reader that is open when the
	// object is deleted may finish (ST13). Object is the whole object's, also for
	// a range. Errors: NotFound, Invalid (a range that starts behind the end),
	// Corrupt (also from Read), Unavailable.
	Open(ctx context.Context, key mayfly.BlobKey, span Span) (io.ReadCloser, Object, error)

	// Stat says what is stored at key. Errors: NotFound, Unavailable.
	Stat(ctx context.Context, key mayfly.BlobKey) (Object, error)

	// CopyTo copies an object to another tier, or to another key, durable on
	// return, by the store's own means where both sides are the same store. What
	// it answers is not a verification (L9): read the copy back for that.
	CopyTo(ctx context.Context, to Blobs, from, as mayfly.BlobKey) (Object, error)

	// Delete removes objects; one that is not there is no error. Durable on
	// return. After an error any of them may be gone, or go later.
	Delete(ctx context.Context, keys ...mayfly.BlobKey) error

	// Presign makes a URL that lets its holder read or write key for a while
	// without us. Errors: Unsupported where the tier has no address of its own.
	Presign(ctx context.Context, what Access, key mayfly.BlobKey, lasts time.Duration) (string, error)

	// List reads keys in byte order from from (included) to to (excluded; empty
	// is the end), at most limit.
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

// Access is what a presigned URL lets its holder do.
type Access uint8

// The accesses.
const (
	Read Access = iota + 1
	Write
)
