package story

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/gate"
	"github.com/mayflyhq/mayfly/engine/hydrate"
	"github.com/mayflyhq/mayfly/engine/media"
	"github.com/mayflyhq/mayfly/store"
)

// Medium is an open object of a story, to be read from its beginning or from
// anywhere. Read whole, its bytes are checked against their hash and end in an
// error where they differ (I14). Not safe for concurrent use. Close it.
type Medium struct {
	Story  Story
	Object Object
	Type   string
	Size   int64
	SHA256 [32]byte
	Tier   hydrate.Tier

	opener opener
	r      io.ReadCloser // nil: nothing is open
	at     int64         // where r is
	offset int64         // where the next Read begins
}

// opener opens an object from an offset on.
type opener func(offset int64) (*hydrate.Medium, error)

// Medium opens an object of a story for viewer. The gate judges at now; what was
// opened before the deadline may be read to its end (ST13). Errors: the gate's,
// NotFound (no such object), Corrupt, Unavailable.
func (s *Stories) Medium(ctx context.Context, id mayfly.ID, viewer mayfly.Viewer, object Object, now mayfly.Instant) (*Medium, error) {
	opened, err := s.open(ctx, id, viewer, now)
	if err != nil {
		return nil, err
	}
	story, err := shown(opened)
	if err != nil {
		return nil, err
	}
	m := &Medium{Story: story, Object: object}
	if m.opener, err = s.opener(ctx, opened, object, now); err != nil {
		return nil, err
	}
	first, err := m.opener(0)
	if errors.Is(err, mayfly.NotFound) { // deleted since the gate has looked
		return nil, gate.Refusal(id, now)
	}
	if err != nil {
		return nil, fmt.Errorf("medium %s of %s: %w", object, id, err)
	}
	m.r, m.Type, m.Size, m.SHA256, m.Tier = first, first.Type, first.Size, first.SHA256, first.Tier
	return m, nil
}

func (s *Stories) opener(ctx context.Context, o gate.Opened, object Object, now mayfly.Instant) (opener, error) {
	if object.Medium < 0 || object.Medium >= len(o.Body.Media) {
		return nil, mayfly.NotFound
	}
	if object.Longest == 0 {
		return func(offset int64) (*hydrate.Medium, error) {
			return s.o.Hydrate.Open(ctx, o.Item, o.Body, object.Medium, store.Span{Offset: offset})
		}, nil
	}
	if _, made := mayfly.RenditionOf(object.Medium, object.Longest); !made || !media.HasPicture(o.Body.Media[object.Medium].Type) {
		return nil, mayfly.NotFound
	}
	return func(offset int64) (*hydrate.Medium, error) { // small enough to be skipped through
		m, err := s.o.Hydrate.Rendition(ctx, o.Item, o.Body, object.Medium, object.Longest, now)
		if err != nil {
			return nil, err
		}
		if _, err := io.CopyN(io.Discard, m, offset); err != nil {
			return nil, errors.Join(err, m.Close())
		}
		return m, nil
	}, nil
}

// Read reads on from where it is.
func (m *Medium) Read(p []byte) (int, error) {
	if m.offset >= m.Size {
		return 0, io.EOF
	}
	if err := m.reopen(); err != nil {
		return 0, err
	}
	n, err := m.r.Read(p)
	m.offset += int64(n)
	m.at = m.offset
	return n, err
}

// reopen makes what is open begin at offset. A seek alone opens nothing: to the
// end and back is how a size is asked for.
func (m *Medium) reopen() error {
	if m.r != nil && m.at == m.offset {
		return nil
	}
	if err := m.Close(); err != nil {
		return err
	}
	r, err := m.opener(m.offset)
	if err != nil {
		return err
	}
	m.r, m.at = r, m.offset
	return nil
}

// Seek says where the next Read begins.
func (m *Medium) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += m.offset
	case io.SeekEnd:
		offset += m.Size
	}
	if offset < 0 {
		return 0, mayfly.Errorf(mayfly.Invalid, "seek to before the beginning")
	}
	m.offset = offset
	return offset, nil
}

// Close closes it.
func (m *Medium) Close() error {
	if m.r == nil {
		return nil
	}
	r := m.r
	m.r = nil
	return r.Close()
}
