package story

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/intake"
)

// Publish makes a story of the draft: its media stream through the cleaning of
// media into hot storage, and then it is born. now reads the node's clock: media
// may take a while to come, and the story is born when they have. A repeated
// idempotency key answers the same story with Again.
//
// Errors: Invalid, TooLarge, Unsupported, Conflict (the live limit; the key or the
// upload was used for something else), Gone, NotFound (the upload), Denied, Full,
// Unavailable, and what reading the media answered.
func (s *Stories) Publish(ctx context.Context, d Draft, now func() mayfly.Instant) (Story, error) {
	c, err := s.o.check(d)
	if err != nil {
		return Story{}, fmt.Errorf("publish: %w", err)
	}
	if !d.Upload.IsZero() {
		if d.Media != nil {
			return Story{}, mayfly.Errorf(mayfly.Invalid, "publish: media beside an upload").WithHint("send media, or name an upload, not both")
		}
		c.key = keyOf(d.Upload, c.key)
		return s.publishReserved(ctx, c, d.Upload, now)
	}
	if err := s.mayAdd(ctx, d.Author, d.Key, now()); err != nil { // before anything is read
		return Story{}, fmt.Errorf("publish: %w", err)
	}
	upload, err := s.receive(ctx, d.Author, d.Media, now)
	if err != nil {
		return Story{}, fmt.Errorf("publish: %w", err)
	}
	return s.publishUpload(ctx, c, upload, now)
}

// receive streams media into an upload of their own. After an error nothing of
// it is left.
func (s *Stories) receive(ctx context.Context, author mayfly.UserID, all iter.Seq2[io.Reader, error], now func() mayfly.Instant) (*intake.Upload, error) {
	upload, err := s.o.Intake.Begin(author, now())
	if err != nil {
		return nil, err
	}
	if err := s.addAll(ctx, upload, all); err != nil {
		return nil, dropped(ctx, upload, err)
	}
	return upload, nil
}

func (s *Stories) addAll(ctx context.Context, upload *intake.Upload, all iter.Seq2[io.Reader, error]) error {
	count := 0
	if all != nil {
		for r, err := range all {
			if err != nil {
				return fmt.Errorf("medium %d: %w", count, err)
			}
			if count == s.o.MaxMedia {
				return mayfly.Errorf(mayfly.Invalid, "over %d media", s.o.MaxMedia).WithHint("publish the others as another story")
			}
			if err := s.add(ctx, upload, r); err != nil {
				return err
			}
			count++
		}
	}
	if count == 0 {
		return mayfly.Errorf(mayfly.Invalid, "a story without a medium").WithHint(fmt.Sprintf("send 1 to %d images or videos", s.o.MaxMedia))
	}
	return nil
}

func (s *Stories) add(ctx context.Context, upload *intake.Upload, r io.Reader) error {
	clean, err := s.clean(r)
	if err != nil {
		return err
	}
	_, err = upload.Add(ctx, clean)
	return err
}

// dropped drops an upload that will not be published because of err. What it
// cannot drop the orphan collector does.
func dropped(ctx context.Context, upload *intake.Upload, err error) error {
	ctx, cancel := afterAll(ctx)
	defer cancel()
	return errors.Join(err, upload.Drop(ctx))
}

// publishUpload gives birth to a draft, one of its author's at a time.
func (s *Stories) publishUpload(ctx context.Context, c checked, upload *intake.Upload, now func() mayfly.Instant) (Story, error) {
	unlock, err := s.authors.lock(ctx, c.author)
	if err != nil {
		return Story{}, fmt.Errorf("publish: %w", dropped(ctx, upload, err))
	}
	defer unlock()
	at := now()
	if err := s.mayAdd(ctx, c.author, c.key, at); err != nil {
		return Story{}, fmt.Errorf("publish: %w", dropped(ctx, upload, err))
	}
	story, err := s.birth(ctx, c, upload, at)
	if unborn(err) {
		err = dropped(ctx, upload, err)
	}
	return story, err
}

// unborn says that a birth was refused before anything could name its upload. Of
// any other failure it may still land (L4).
func unborn(err error) bool {
	return errors.Is(err, mayfly.Conflict) || errors.Is(err, mayfly.Invalid) || errors.Is(err, mayfly.Denied)
}

// birth is called with the author's lock held.
func (s *Stories) birth(ctx context.Context, c checked, upload *intake.Upload, now mayfly.Instant) (Story, error) {
	published, err := s.o.Intake.Publish(ctx, intake.Draft{
		Owner: c.author, Product: mayfly.Story, Fate: mayfly.Archive, Audience: c.audience, Lifetime: c.lifetime,
		Text: c.caption, Data: c.data, Upload: upload, Key: c.key,
	}, now)
	if err != nil {
		return Story{}, err
	}
	// What the author may see of it: a repeated one may be deleted or held since.
	opened, err := s.openOwn(ctx, published.Item.ID, c.author, now)
	if err != nil {
		return Story{}, err
	}
	story, err := shown(opened)
	if err != nil {
		return Story{}, err
	}
	story.Again = published.Again
	if !story.Again {
		s.o.Hydrate.MakeRenditions(story.Item, story.Body)
	}
	return story, nil
}
