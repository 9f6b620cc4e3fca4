package upload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// A raw object is what a client has put to a presigned URL. Its bytes are not
// trusted: no row names it and no route serves it. TakeIn cleans it and stores it
// as a medium; the orphan collector removes what is left (L12).

// rawLasts is how long a presigned URL for a put is good.
const rawLasts = 15 * time.Minute

// PutURL is a presigned URL to which a medium of a reservation can be put.
type PutURL struct {
	URL   string // empty: none
	Until mayfly.Instant
}

// PresignPuts makes presigned URLs for the media of a reservation, each for exactly
// the length that was reserved. They are empty for media that have arrived, and for
// all if hot storage has no such URLs (ST1). The reservation notes until when they
// are good: so long its bytes count against the budget of owner.
func (u *Uploads) PresignPuts(ctx context.Context, owner mayfly.UserID, r Reservation, now mayfly.Instant) ([]PutURL, error) {
	all := make([]PutURL, len(r.Media))
	none := make([]PutURL, len(r.Media))
	var last mayfly.Instant
	for n, m := range r.Media {
		if m.Done {
			continue
		}
		url, until, err := u.presignRaw(ctx, r.Upload, n, m.Length, now)
		if errors.Is(err, mayfly.Unsupported) {
			return none, nil
		}
		if err != nil {
			return none, err
		}
		all[n] = PutURL{URL: url, Until: until}
		last = max(last, until)
	}
	if last == 0 {
		return none, nil
	}
	err := u.change(ctx, owner, r.Upload, now, func(row *reserved) error {
		row.urlsUntil = max(row.urlsUntil, last)
		return nil
	})
	if err != nil {
		return none, fmt.Errorf("upload %s: presign: %w", r.Upload, err)
	}
	return all, nil
}

// presignRaw makes a presigned URL for medium n. It is good for whole seconds and
// not past the upload's end (L11). Errors: Unsupported (hot storage has no such
// URLs, or no time is left), Unavailable.
func (u *Uploads) presignRaw(ctx context.Context, upload mayfly.ID, n int, length int64, now mayfly.Instant) (url string, until mayfly.Instant, err error) {
	lasts := min(rawLasts, upload.Deadline().Sub(now)).Truncate(time.Second)
	if lasts < time.Second {
		return "", 0, mayfly.Errorf(mayfly.Unsupported, "upload %s has no time left for a URL", upload)
	}
	if url, err = u.set.Hot.PresignPut(ctx, mayfly.RawKey(upload, n), length, lasts); err != nil {
		return "", 0, fmt.Errorf("upload %s: presign medium %d: %w", upload, n, err)
	}
	return url, now.Add(lasts) / 1000 * 1000, nil // presigned URLs are dated in whole seconds
}

// TakeIn stores the media of a reservation that were put to presigned URLs, each
// in the same way as Put. It asks admit before it reads the first of them, and
// leaves out what was not put. After an error the raw objects are still there, and
// what was taken in stays: a retry goes on from there. Errors: NotFound, Gone,
// those of admit and of Put.
func (u *Uploads) TakeIn(ctx context.Context, owner mayfly.UserID, upload mayfly.ID, admit func() error, now func() mayfly.Instant) error {
	row, err := u.reserved(ctx, owner, upload, now())
	if err != nil {
		return err
	}
	admitted := false
	for n, at := range row.slots {
		if at.state == slotFilled {
			continue
		}
		if !admitted {
			if err := admit(); err != nil {
				return err
			}
			admitted = true
		}
		err := u.takeInMedium(ctx, owner, upload, n, at.length, now())
		if errors.Is(err, mayfly.Conflict) {
			err = u.takenByAnother(ctx, owner, upload, n, now(), err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (u *Uploads) takeInMedium(ctx context.Context, owner mayfly.UserID, upload mayfly.ID, n int, length int64, now mayfly.Instant) error {
	r, err := u.openRaw(ctx, upload, n, length)
	if errors.Is(err, mayfly.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = u.Put(ctx, owner, upload, n, r, now)
	if err = errors.Join(err, r.Close()); err != nil {
		return err
	}
	ctx, cancel := detached(ctx)
	defer cancel()
	_ = u.set.Hot.Delete(ctx, mayfly.RawKey(upload, n)) // if it fails, the orphan collector does it (L12)
	return nil
}

// takenByAnother looks what became of a medium that could not be taken in: another
// request that publishes the same upload may have done so, or be doing so.
func (u *Uploads) takenByAnother(ctx context.Context, owner mayfly.UserID, upload mayfly.ID, n int, now mayfly.Instant, conflict error) error {
	row, err := u.reserved(ctx, owner, upload, now)
	if err != nil {
		return err
	}
	switch at := row.slots[n]; {
	case at.state == slotFilled:
		return nil
	case at.filling(now):
		return mayfly.Errorf(mayfly.Unavailable, "medium %d of upload %s is being stored by another request", n, upload).WithHint("publish again in a moment")
	default:
		return conflict
	}
}

// openRaw opens the raw object of medium n. A client may have put anything, and may
// replace it at any moment: only its size is used, and is checked before a byte is
// read, because a storage may ignore the length that a URL was signed for. Errors:
// NotFound, Invalid (also from Read), Unavailable.
func (u *Uploads) openRaw(ctx context.Context, upload mayfly.ID, n int, length int64) (io.ReadCloser, error) {
	r, object, err := u.set.Hot.Open(ctx, mayfly.RawKey(upload, n), store.Span{})
	if err != nil {
		return nil, fmt.Errorf("upload %s: medium %d: %w", upload, n, badRaw(err))
	}
	if object.Size != length {
		err := mayfly.Errorf(mayfly.Invalid, "upload %s: medium %d has %d bytes, %d were reserved", upload, n, object.Size, length).
			WithHint("put the medium that was reserved, then publish again")
		return nil, errors.Join(err, r.Close())
	}
	return raw{r}, nil
}

// raw reads a raw object.
type raw struct{ io.ReadCloser }

func (r raw) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	return n, badRaw(err)
}

// badRaw turns Corrupt into Invalid: a raw object that cannot be read is the
// client's error, no loss of data that was promised.
func badRaw(err error) error {
	if !errors.Is(err, mayfly.Corrupt) {
		return err
	}
	return mayfly.Errorf(mayfly.Invalid, "what was put cannot be read: %v", err).WithHint("put it again, then publish again")
}
