// Package hydrate is in charge of making an item's media readable wherever they
// lie: hot, cold, or on the way between the two. It reads what the row names,
// and checks the hash while it streams: bytes that do not match end in an error,
// never in a clean end (I14). It makes the smaller pictures of images, a few at
// once, and keeps them beside the original (ST3).
//
// It asks nobody whether the reader may: the gate has let them in.
package hydrate

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/media"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/loop"
)

// Options are the settings of a Hydrate.
type Options struct {
	Workers int          // pictures of the largest size that are made smaller at once; default 1
	Limits  media.Limits // of what is decoded
	Queue   int          // how many wait for that, asked for or not; default 256
	// Problem is told what could not be made or kept of an item; whoever asks for
	// it gets it made again. May be nil.
	Problem func(mayfly.ID, error)
	// Made tells a test that a rendition that nobody waits for is done.
	Made loop.Signal[mayfly.ID]
}

func (o Options) withDefaults() (Options, error) {
	if o.Workers == 0 {
		o.Workers = 1
	}
	if o.Queue == 0 {
		o.Queue = 256
	}
	if o.Limits.Pixels == 0 {
		o.Limits.Pixels = mayfly.DefaultMaxPixels
	}
	if o.Problem == nil {
		o.Problem = func(mayfly.ID, error) {}
	}
	if o.Workers < 0 || o.Queue < 0 || o.Limits.Pixels < 0 || o.Limits.Image < 0 {
		return o, mayfly.Errorf(mayfly.Invalid, "hydrate: a setting is out of range: %d workers, queue %d, limits %+v", o.Workers, o.Queue, o.Limits)
	}
	return o, nil
}

// Hydrate opens media. Safe for concurrent use.
type Hydrate struct {
	rows      store.Rows
	writer    store.Writer
	ledger    store.Ledger
	hot, cold store.Blobs
	o         Options
	making    making
}

// New is a Hydrate over set. Close it.
func New(set store.Set, o Options) (*Hydrate, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	h := &Hydrate{rows: set.Rows, writer: set.Writer, ledger: set.Ledger, hot: set.Hot, cold: set.Cold, o: o}
	h.making.open(o)
	return h, nil
}

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
	Tier   Tier
	Type   string
	Size   int64 // of the whole medium
	SHA256 [32]byte
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
	r, err := upload.Open(ctx, tier, key, medium, span)
	if err != nil {
		return nil, fmt.Errorf("hydrate: %w", err)
	}
	return &Medium{ReadCloser: r, Tier: Hot, Type: medium.Type, Size: medium.Size, SHA256: medium.SHA256}, nil
}
