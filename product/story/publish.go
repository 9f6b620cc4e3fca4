package story

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/gate"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/store"
)

// Publish makes a story of the draft: its media stream through the cleaning of
// media into hot storage, or were put to a reserved upload before; then the story
// is born. now reads the node's clock: media may take a while to come, and the
// story is born when they have. A repeated idempotency key returns the same story
// with Again.
//
// Errors: Invalid, TooLarge, Unsupported, Conflict (the live limit; the key or the
// upload was used for another story), Gone, NotFound (the upload), Denied, Full,
// Unavailable, and what reading the media returned.
func (s *Stories) Publish(ctx context.Context, d Draft, now func() mayfly.Instant) (Story, error) {
	c, err := s.o.check(d)
	if err != nil {
		return Story{}, fmt.Errorf("publish: %w", err)
	}
	if !d.Upload.IsZero() {
		if d.Media != nil {
			return Story{}, mayfly.Errorf(mayfly.Invalid, "publish: media beside an upload").WithHint("send media, or name an upload, not both")
		}
		return s.publishReserved(ctx, c, d.Upload, now)
	}
	defer s.o.Hydrate.Yield()()
	a, err := s.admit(ctx, c, now()) // before a medium is read
	if err != nil {
		return Story{}, fmt.Errorf("publish: %w", err)
	}
	received, err := s.receive(ctx, d.Author, d.Media, now)
	if err != nil {
		return Story{}, fmt.Errorf("publish: %w", err)
	}
	return s.publishUpload(ctx, c, received, a, now)
}

// receive streams media into an upload of their own. After an error nothing is
// left of it.
func (s *Stories) receive(ctx context.Context, author mayfly.UserID, media iter.Seq2[io.Reader, error], now func() mayfly.Instant) (*upload.Upload, error) {
	u, err := s.o.Uploads.Begin(author, now())
	if err != nil {
		return nil, err
	}
	if err := s.addAll(ctx, u, media); err != nil {
		return nil, errors.Join(err, u.Drop(ctx))
	}
	return u, nil
}

func (s *Stories) addAll(ctx context.Context, u *upload.Upload, media iter.Seq2[io.Reader, error]) error {
	count, most := 0, s.o.Uploads.MaxMedia()
	if media != nil {
		for r, err := range media {
			if err != nil {
				return fmt.Errorf("medium %d: %w", count, err)
			}
			if count == most {
				return mayfly.Errorf(mayfly.Invalid, "over %d media", most).WithHint("publish the others as another story")
			}
			if _, err := u.AddCleaned(ctx, r); err != nil {
				return err
			}
			count++
		}
	}
	if count == 0 {
		return mayfly.Errorf(mayfly.Invalid, "a story without a medium").WithHint(fmt.Sprintf("send 1 to %d images or videos", most))
	}
	return nil
}

// publishUpload gives birth to a draft. The upload is dropped if the birth was
// refused before a row could name it; after any other failure the row may still
// land (L4).
func (s *Stories) publishUpload(ctx context.Context, c checked, u *upload.Upload, a admission, now func() mayfly.Instant) (Story, error) {
	tried := false
	story, err := s.locked(ctx, c, a, now, func(a admission, at mayfly.Instant) (Story, error) {
		tried = true
		return s.birth(ctx, c, u, a, at)
	})
	if err != nil && (!tried || errors.Is(err, mayfly.Conflict) || errors.Is(err, mayfly.Invalid) || errors.Is(err, mayfly.Denied)) {
		err = errors.Join(err, u.Drop(ctx))
	}
	return story, err
}

// publishReserved makes a story of a reserved upload. Its objects become the
// property of one story (L11): the reservation is bound to one idempotency key
// first, and a key stands for one birth. Published again it returns the same story.
func (s *Stories) publishReserved(ctx context.Context, c checked, id mayfly.ID, now func() mayfly.Instant) (Story, error) {
	if c.key == "" { // a retry without a key is a retry as well
		c.key = uploadKeyPrefix + id.Short()
	}
	var a admission
	err := s.o.Uploads.TakeIn(ctx, c.author, id, func() (err error) { // before the lock: media take a while
		a, err = s.admit(ctx, c, now())
		return err
	}, now)
	if err != nil {
		return Story{}, fmt.Errorf("publish: %w", err)
	}
	return s.locked(ctx, c, a, now, func(a admission, at mayfly.Instant) (Story, error) {
		u, err := s.o.Uploads.Claim(ctx, c.author, id, c.key, func() (bool, error) {
			_, known, err := s.o.Intake.Known(ctx, c.author, c.key, at)
			return known, err
		}, at)
		if err != nil {
			return Story{}, fmt.Errorf("publish: %w", err)
		}
		story, err := s.birth(ctx, c, u, a, at)
		if err != nil {
			return Story{}, err
		}
		if err := s.o.Uploads.Published(ctx, c.author, id, at); err != nil {
			return Story{}, fmt.Errorf("publish: %w", err) // a retry returns the story
		}
		return story, nil
	})
}

// locked calls do with the author's lock held and an admission that holds: a, or a
// new one.
func (s *Stories) locked(ctx context.Context, c checked, a admission, now func() mayfly.Instant, do func(admission, mayfly.Instant) (Story, error)) (Story, error) {
	unlock, err := s.authors.lock(ctx, c.author)
	if err != nil {
		return Story{}, fmt.Errorf("publish: %w", err)
	}
	defer unlock()
	at := now()
	if !s.stillAdmitted(c.author, a) {
		if a, err = s.admit(ctx, c, at); err != nil {
			return Story{}, fmt.Errorf("publish: %w", err)
		}
	}
	return do(a, at)
}

// birth is called with the author's lock held. A new story is returned as it was
// born; a repeated one is read back, because it may be deleted or held since.
func (s *Stories) birth(ctx context.Context, c checked, u *upload.Upload, a admission, now mayfly.Instant) (Story, error) {
	published, err := s.o.Intake.Publish(ctx, intake.Draft{
		Owner: c.author, Product: mayfly.Story, Fate: mayfly.Archive, Audience: c.audience, Lifetime: c.lifetime,
		Text: c.caption, Data: c.data, Upload: u, Key: c.key, Admission: a.account,
	}, now)
	refused := errors.Is(err, mayfly.Conflict) || errors.Is(err, mayfly.Invalid) || errors.Is(err, mayfly.Denied) // before a row could land
	if !refused {
		s.counts.born(c.author, published.Item.ID, err != nil, now)
	}
	if err != nil {
		return Story{}, err
	}
	opened := gate.Opened{Item: published.Item, Body: published.Body, Verdict: gate.Serve}
	if published.Again {
		if opened, err = s.openOwn(ctx, published.Item.ID, c.author, now); err != nil {
			return Story{}, err
		}
	} else {
		s.o.Hydrate.MakeRenditions(published.Item, published.Body)
	}
	story, err := shown(opened)
	story.Again = published.Again
	return story, err
}

// admission records that an author may publish one more story: the account is not
// erased, and the live limit is not reached.
type admission struct {
	account intake.Admission
	uses    uint64 // of the author's lock, before the live stories were counted
}

// admit reads the mark of erasure and the owner index side by side. Errors:
// Denied, Conflict (the live limit), Unavailable.
func (s *Stories) admit(ctx context.Context, c checked, now mayfly.Instant) (admission, error) {
	a := admission{uses: s.authors.uses(c.author)}
	var refused, full error
	var both sync.WaitGroup
	both.Go(func() { a.account, refused = s.o.Intake.Admit(ctx, c.author) })
	both.Go(func() { full = s.mayAdd(ctx, c.author, c.key, now) })
	both.Wait()
	if refused != nil { // the account comes first, whichever read ends first
		return a, refused
	}
	return a, full
}

// stillAdmitted is asked with the author's lock held. An admission holds if it is
// recent, and if no story of the author was born since: no other request has held
// the lock.
func (s *Stories) stillAdmitted(author mayfly.UserID, a admission) bool {
	return a.account.Holds(author) && a.uses == s.authors.uses(author)
}

// Reserve makes room for an upload of media that are put one by one. Errors:
// Unauthenticated, Conflict (the live limit), and those of upload.Reserve.
func (s *Stories) Reserve(ctx context.Context, author mayfly.UserID, media []upload.Expected, now mayfly.Instant) (upload.Reservation, error) {
	if author.IsZero() {
		return upload.Reservation{}, mayfly.Errorf(mayfly.Unauthenticated, "an upload belongs to a user").WithHint("reserve it with a user's token")
	}
	if err := s.mayAdd(ctx, author, "", now); err != nil {
		return upload.Reservation{}, fmt.Errorf("reserve: %w", err)
	}
	return s.o.Uploads.Reserve(ctx, author, media, now)
}

// Uploads stores the media of reservations.
func (s *Stories) Uploads() *upload.Uploads { return s.o.Uploads }

// Change is what is different in a story that is shared again.
type Change struct {
	Caption  *string // nil: the old one
	Audience string  // its word; empty: the old one
	Lifetime string  // empty: the default
}

// Reshare makes a new story of the media of one of author's own, live or archived,
// without uploading again (ST6). An object has one owner (L11): the bytes are
// copied, and their hash is verified on the way. Another user's story is refused
// like any story that the viewer may not see. Errors: those of Publish, and the
// gate's.
func (s *Stories) Reshare(ctx context.Context, id mayfly.ID, author mayfly.UserID, change Change, key string, now func() mayfly.Instant) (Story, error) {
	source, err := s.openOwn(ctx, id, author, now())
	if err != nil {
		return Story{}, err
	}
	c, err := s.reshared(source, change, key)
	if err != nil {
		return Story{}, fmt.Errorf("reshare: %w", err)
	}
	a, err := s.admit(ctx, c, now())
	if err != nil {
		return Story{}, fmt.Errorf("reshare: %w", err)
	}
	u, err := s.o.Uploads.Begin(author, now())
	if err != nil {
		return Story{}, fmt.Errorf("reshare: %w", err)
	}
	for n := range source.Body.Media {
		if err := s.copyMedium(ctx, u, source, n); err != nil {
			if errors.Is(err, mayfly.NotFound) { // deleted since the gate has judged it
				err = gate.Refusal(id, now())
			}
			return Story{}, errors.Join(err, u.Drop(ctx))
		}
	}
	// Copying takes a while: a story that was held or deleted meanwhile is not shared (L16).
	if _, err := s.openOwn(ctx, id, author, now()); err != nil {
		return Story{}, errors.Join(err, u.Drop(ctx))
	}
	return s.publishUpload(ctx, c, u, a, now)
}

// reshared returns the draft of a story that is shared again.
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

func (s *Stories) copyMedium(ctx context.Context, u *upload.Upload, source gate.Opened, n int) error {
	r, err := s.o.Hydrate.Open(ctx, source.Item, source.Body, n, store.Span{})
	if err != nil {
		return err
	}
	if err := errors.Join(u.Copy(ctx, r, source.Body.Media[n]), r.Close()); err != nil {
		return fmt.Errorf("copy medium %d of %s: %w", n, source.Item.ID, err)
	}
	return nil
}
