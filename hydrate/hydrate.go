// Package hydrate is in charge of making an item's media readable wherever they
// lie: hot, cold, or on the way between the two. It reads what the row names,
// and checks the hash while it streams: bytes that do not match end in an error,
// never in a clean end (I14).
//
// It asks nobody whether the reader may: the gate has let them in.
package hydrate

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

// Hydrate opens media. Safe for concurrent use.
type Hydrate struct {
	ledger    store.Ledger
	hot, cold store.Blobs
}

// New is a Hydrate over set.
func New(set store.Set) *Hydrate { return &Hydrate{ledger: set.Ledger, hot: set.Hot, cold: set.Cold} }

// Tier says where a medium was read from.
type Tier uint8

// The tiers.
const (
	Hot Tier = iota + 1
	Cold
)

// String is the tier's word on the wire.
func (t Tier) String() string {
	if t == Cold {
		return "cold"
	}
	return "hot"
}

// Medium is an open medium. Close it.
type Medium struct {
	io.ReadCloser
	Tier Tier
	Size int64 // of the whole medium
}

// tries is how often a row that moved while its medium was being opened is read again.
const tries = 3

// Open opens medium n of item, or a span of it. The row may have moved since it
// was read: an object that is not where it said is looked for where the row says
// now. Errors: NotFound (the item is deleted, or has no such medium), Corrupt,
// Unavailable.
func (h *Hydrate) Open(ctx context.Context, item mayfly.Item, body mayfly.Body, n int, span store.Span) (*Medium, error) {
	if n < 0 || n >= len(body.Media) {
		return nil, mayfly.Errorf(mayfly.NotFound, "%s has no medium %d", item.ID, n)
	}
	for try := 0; ; try++ {
		if item.State == mayfly.Deleted {
			return nil, mayfly.Errorf(mayfly.NotFound, "%s is deleted", item.ID)
		}
		m, err := h.open(ctx, item, body.Media[n], n, span)
		if !errors.Is(err, mayfly.NotFound) {
			return m, err
		}
		if try == tries { // I2: what the row names is there, unless something is broken
			return nil, mayfly.Errorf(mayfly.Corrupt, "medium %d of %s is in neither tier: %w", n, item.ID, err)
		}
		found, err := h.ledger.Get(ctx, item.ID)
		if err != nil {
			return nil, fmt.Errorf("hydrate %s: %w", item.ID, err)
		}
		if !found[0].Found {
			return nil, mayfly.Errorf(mayfly.NotFound, "%s is not there", item.ID)
		}
		item = found[0].Item
	}
}

// open reads the hot copy, or the cold one where hot is not named any more, is
// being erased right now, or cannot be what was uploaded: a row that names both
// means that cold is verified.
func (h *Hydrate) open(ctx context.Context, item mayfly.Item, medium mayfly.Medium, n int, span store.Span) (*Medium, error) {
	err := error(mayfly.Errorf(mayfly.Corrupt, "the row of %s names no copy of its media", item.ID))
	if item.Keys.Hot != 0 {
		var m *Medium
		m, err = openCopy(ctx, h.hot, item.MediaKey(item.Keys.Hot, n), medium, span)
		if !errors.Is(err, mayfly.NotFound) && !errors.Is(err, mayfly.Corrupt) {
			return m, err
		}
	}
	if item.Keys.Cold != 0 {
		m, err := openCopy(ctx, h.cold, item.MediaKey(item.Keys.Cold, n), medium, span)
		if err == nil {
			m.Tier = Cold
		}
		return m, err
	}
	return nil, err
}

func openCopy(ctx context.Context, tier store.Blobs, key mayfly.BlobKey, medium mayfly.Medium, span store.Span) (*Medium, error) {
	r, object, err := tier.Open(ctx, key, span)
	if err != nil {
		return nil, fmt.Errorf("hydrate %s: %w", key, err)
	}
	if object.Size != medium.Size {
		err := mayfly.Errorf(mayfly.Corrupt, "%s has %d bytes, not %d", key, object.Size, medium.Size)
		return nil, errors.Join(err, r.Close())
	}
	if span.Offset == 0 && (span.Length == 0 || span.Length >= medium.Size) {
		r = &checked{ReadCloser: r, hash: sha256.New(), left: medium.Size, want: medium.SHA256, key: key}
	}
	return &Medium{ReadCloser: r, Tier: Hot, Size: object.Size}, nil
}

// checked hashes what passes. What is not what was uploaded ends in Corrupt, and
// without its last bytes: who has been promised a length and got that many would
// take it for whole (I14).
type checked struct {
	io.ReadCloser
	hash hash.Hash
	left int64 // bytes that have not passed
	want [32]byte
	key  mayfly.BlobKey
}

func (c *checked) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.hash.Write(p[:n])
	c.left -= int64(n)
	last := c.left <= 0 || errors.Is(err, io.EOF)
	if last && (c.left != 0 || [32]byte(c.hash.Sum(nil)) != c.want) {
		return 0, mayfly.Errorf(mayfly.Corrupt, "%s is not what was uploaded", c.key)
	}
	return n, err
}
