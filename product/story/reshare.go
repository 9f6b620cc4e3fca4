package story

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/gate"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/store"
)

// Change is what is different in a story that is shared again.
type Change struct {
	Caption  *string // nil: the old one
	Audience string  // its word; empty: the old one
	Lifetime string  // empty: the default
}

// Reshare makes a new story of the media of one of author's own, live or archived,
// without uploading again (ST6). An object has one owner (L11): the bytes are
// copied, and their hash is verified on the way. Somebody else's story is refused
// in the gate's words. Errors: those of Publish, and the gate's.
func (s *Stories) Reshare(ctx context.Context, id mayfly.ID, author mayfly.UserID, change Change, key string, now func() mayfly.Instant) (Story, error) {
	source, err := s.openOwn(ctx, id, author, now())
	if err != nil {
		return Story{}, err
	}
	c, err := s.reshared(source, change, key)
	if err != nil {
		return Story{}, fmt.Errorf("reshare: %w", err)
	}
	if err := s.mayAdd(ctx, author, key, now()); err != nil {
		return Story{}, fmt.Errorf("reshare: %w", err)
	}
	upload, err := s.o.Intake.Begin(author, now())
	if err != nil {
		return Story{}, fmt.Errorf("reshare: %w", err)
	}
	for n := range source.Body.Media {
		if err := s.copyMedium(ctx, upload, source, n); err != nil {
			if errors.Is(err, mayfly.NotFound) { // deleted since the gate has looked
				err = gate.Refusal(id, now())
			}
			return Story{}, dropped(ctx, upload, err)
		}
	}
	// Copying takes a while: what was held or deleted meanwhile is shared no more (L16).
	if _, err := s.openOwn(ctx, id, author, now()); err != nil {
		return Story{}, dropped(ctx, upload, err)
	}
	return s.publishUpload(ctx, c, upload, now)
}

// reshared is the draft of a story that is shared again.
func (s *Stories) reshared(source gate.Opened, change Change, key string) (checked, error) {
	d := Draft{Author: source.Item.Owner, Caption: source.Body.Text, Audience: change.Audience, Lifetime: change.Lifetime, Key: key}
	if change.Caption != nil {
		d.Caption = *change.Caption
	}
	if d.Audience == "" {
		d.Audience = source.Item.Audience.String()
	}
	c, err := s.o.check(d)
	c.data = source.Body.Data
	return c, err
}

func (s *Stories) copyMedium(ctx context.Context, upload *intake.Upload, source gate.Opened, n int) error {
	r, err := s.o.Hydrate.Open(ctx, source.Item, source.Body, n, store.Span{})
	if err != nil {
		return err
	}
	want := source.Body.Media[n]
	got, err := upload.Add(ctx, known{r, want})
	if err = errors.Join(err, r.Close()); err != nil {
		return fmt.Errorf("copy medium %d of %s: %w", n, source.Item.ID, err)
	}
	if got.SHA256 != want.SHA256 {
		return mayfly.Errorf(mayfly.Corrupt, "medium %d of %s was not copied as it is", n, source.Item.ID)
	}
	return nil
}

// known is a reader of a medium that was described when it first came.
type known struct {
	io.Reader
	medium mayfly.Medium
}

func (k known) Type() string                       { return k.medium.Type }
func (k known) Dimensions() (width, height uint32) { return k.medium.Width, k.medium.Height }
