// Package hydrate opens the media of an item in whichever tier they are, also while
// they are moved. It reads the objects that the row names and checks the hash while
// it streams: a mismatch ends in an error, never in io.EOF (I14). It also makes
// renditions, the smaller pictures of images, and stores them beside the original
// (ST3).
//
// It does not check permissions: callers must have opened the item with the gate.
package hydrate

import (
	"context"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sync/semaphore"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/media"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/loop"
)

// Options are the settings of a Hydrate.
type Options struct {
	Workers int          // pictures of the largest size that are decoded at once; default 1
	Limits  media.Limits // limits of the pictures that are decoded
	Queue   int          // maximum number of waiting requests, and of queued renditions; default 256
	// Problem is called when a rendition could not be made or stored; the next
	// request makes it again. May be nil.
	Problem func(mayfly.ID, error)
	// Made signals to tests that a rendition from the queue is done.
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
	if o.Limits.Memory == 0 {
		o.Limits.Memory = media.DecodeMemory
	}
	if o.Problem == nil {
		o.Problem = func(mayfly.ID, error) {}
	}
	if o.Workers < 0 || o.Queue < 0 || o.Limits.Pixels < 0 || o.Limits.Image < 0 || o.Limits.Memory < 0 {
		return o, mayfly.Errorf(mayfly.Invalid, "hydrate: setting out of range: %d workers, queue %d, limits %+v", o.Workers, o.Queue, o.Limits)
	}
	return o, nil
}

// Hydrate opens media and makes renditions. Safe for concurrent use.
type Hydrate struct {
	rows      store.Rows
	writer    store.Writer
	ledger    store.Ledger
	hot, cold store.Blobs
	o         Options
	making    making
	receiving *semaphore.Weighted // for images of Shrink
}

// New returns a Hydrate over set. The caller must close it.
func New(set store.Set, o Options) (*Hydrate, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	h := &Hydrate{rows: set.Rows, writer: set.Writer, ledger: set.Ledger, hot: set.Hot, cold: set.Cold, o: o, receiving: semaphore.NewWeighted(maxReceiving)}
	h.making.open(o)
	return h, nil
}

// Tier is where a medium was read from.
type Tier uint8

// The tiers.
const (
	Hot Tier = iota + 1
	Cold
)

// String returns the name of the tier in the API.
func (t Tier) String() string {
	if t == Cold {
		return "cold"
	}
	return "hot"
}

// Medium is an open medium. The caller must close it.
type Medium struct {
	io.ReadCloser
	Tier   Tier
	Type   string
	Size   int64 // of the whole medium
	SHA256 [32]byte
}

// tries is how often the row is read again when it changed while a medium was opened.
const tries = 3

// Open opens medium n of item, or a span of it. The row may have changed since it was
// read: if the object is missing, Open reads the row again and tries the object that
// it names now. Errors: NotFound (the item is deleted, or has no such medium),
// Corrupt, Unavailable.
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
		if try == tries { // the objects that a row names always exist (I2)
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

// open opens the hot copy, or the cold one if the row names no hot copy, or it was
// just erased, or it is damaged: if a row names both, the cold copy is verified.
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
