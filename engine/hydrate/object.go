package hydrate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/media"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/store"
)

// Object names one of an item's objects: a medium, or a smaller picture of it.
type Object struct {
	Medium  int
	Longest int // side in pixels; 0: the medium itself
}

// String returns the object's name in URLs: 0, or 0-320.
func (o Object) String() string {
	if o.Longest == 0 {
		return strconv.Itoa(o.Medium)
	}
	return fmt.Sprintf("%d-%d", o.Medium, o.Longest)
}

// ParseObject reads the one spelling that String writes. Errors: NotFound, because
// it is the last part of a URL.
func ParseObject(text string) (Object, error) {
	medium, longest, smaller := strings.Cut(text, "-")
	var o Object
	var errs [2]error
	o.Medium, errs[0] = strconv.Atoi(medium)
	if smaller {
		o.Longest, errs[1] = strconv.Atoi(longest)
	}
	if _, made := mayfly.RenditionOf(o.Medium, o.Longest); smaller && !made {
		return Object{}, mayfly.NotFound
	}
	if errs[0] != nil || errs[1] != nil || o.Medium < 0 || o.Medium >= mayfly.MaxMedia || o.String() != text {
		return Object{}, mayfly.NotFound
	}
	return o, nil
}

// Sizes returns the longest sides of the smaller pictures of a medium.
func Sizes() []int { return []int{mayfly.SmallRendition, mayfly.LargeRendition} }

// Opened is an open object of an item, to be read from its beginning or from
// anywhere. Read whole, its bytes are checked against their hash and end in an
// error where they differ (I14). Not safe for concurrent use. Close it.
type Opened struct {
	*upload.Seeker
	Type   string
	Size   int64
	SHA256 [32]byte
	Tier   Tier
}

// OpenObject opens an object of an item that the gate has opened. Errors: the bare
// NotFound (no such object, or it is deleted since), Corrupt, Unsupported, Unavailable.
func (h *Hydrate) OpenObject(ctx context.Context, item mayfly.Item, body mayfly.Body, object Object, now mayfly.Instant) (*Opened, error) {
	open, err := h.opener(ctx, item, body, object, now)
	if err != nil {
		return nil, err
	}
	first, err := open(0)
	if errors.Is(err, mayfly.NotFound) {
		return nil, mayfly.NotFound
	}
	if err != nil {
		return nil, fmt.Errorf("medium %s of %s: %w", object, item.ID, err)
	}
	read := upload.NewSeeker(first, first.Size, func(offset int64) (io.ReadCloser, error) { return open(offset) })
	return &Opened{Seeker: read, Type: first.Type, Size: first.Size, SHA256: first.SHA256, Tier: first.Tier}, nil
}

// opener returns what opens an object at an offset.
func (h *Hydrate) opener(ctx context.Context, item mayfly.Item, body mayfly.Body, object Object, now mayfly.Instant) (func(offset int64) (*Medium, error), error) {
	if object.Medium < 0 || object.Medium >= len(body.Media) {
		return nil, mayfly.NotFound
	}
	if object.Longest == 0 {
		return func(offset int64) (*Medium, error) {
			return h.Open(ctx, item, body, object.Medium, store.Span{Offset: offset})
		}, nil
	}
	if _, made := mayfly.RenditionOf(object.Medium, object.Longest); !made || !media.HasPicture(body.Media[object.Medium].Type) {
		return nil, mayfly.NotFound
	}
	return func(offset int64) (*Medium, error) { // small enough to skip to the offset
		m, err := h.Rendition(ctx, item, body, object.Medium, object.Longest, now)
		if err != nil {
			return nil, err
		}
		if _, err := io.CopyN(io.Discard, m, offset); err != nil {
			return nil, errors.Join(err, m.Close())
		}
		return m, nil
	}, nil
}
