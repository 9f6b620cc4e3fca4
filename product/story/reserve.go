package story

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// fillWithin is how long a medium may be on its way: what has not arrived by then
// may still land, so that its place is never used again.
const fillWithin = 10 * time.Minute

// Reserve makes room for an upload of so many media.
func (s *Stories) Reserve(ctx context.Context, author mayfly.UserID, count int, now mayfly.Instant) (Reservation, error) {
	if author.IsZero() {
		return Reservation{}, mayfly.Errorf(mayfly.Unauthenticated, "an upload belongs to a user").WithHint("reserve it with a user's token")
	}
	if count < 1 || count > s.o.MaxMedia {
		return Reservation{}, mayfly.Errorf(mayfly.Invalid, "an upload of %d media", count).WithHint(fmt.Sprintf("reserve 1 to %d media", s.o.MaxMedia))
	}
	if err := s.mayAdd(ctx, author, "", now); err != nil {
		return Reservation{}, fmt.Errorf("reserve: %w", err)
	}
	upload, err := s.o.Intake.Begin(author, now)
	if err != nil {
		return Reservation{}, fmt.Errorf("reserve: %w", err)
	}
	row := reserved{slots: slices.Repeat([]slot{{state: slotEmpty}}, count)}
	swapped, _, err := s.swapReserved(ctx, author, upload.ID, nil, row)
	if err == nil && !swapped {
		err = mayfly.Errorf(mayfly.Unavailable, "the id was taken").WithHint("try again")
	}
	if err != nil {
		return Reservation{}, fmt.Errorf("reserve: %w", err)
	}
	return row.shown(upload.ID), nil
}

// Reservation is how far an upload of author's has come. Errors: NotFound, Gone,
// Unavailable.
func (s *Stories) Reservation(ctx context.Context, author mayfly.UserID, upload mayfly.ID, now mayfly.Instant) (Reservation, error) {
	row, _, err := s.readReserved(ctx, author, upload, now)
	if err != nil {
		return Reservation{}, err
	}
	return row.shown(upload), nil
}

// Put streams medium n of a reserved upload, cleaned. Errors: NotFound (somebody
// else's, or no such medium), Gone, Conflict (it has arrived, or is on its way),
// and those of cleaning and storing.
func (s *Stories) Put(ctx context.Context, author mayfly.UserID, upload mayfly.ID, n int, r io.Reader, now mayfly.Instant) (mayfly.Medium, error) {
	if there, ok, err := s.filled(ctx, author, upload, n, now); err != nil || ok {
		if err == nil {
			err = s.same(r, there, n)
		}
		return there, err
	}
	nonce, err := s.beginFilling(ctx, author, upload, n, now)
	if err != nil {
		return mayfly.Medium{}, err
	}
	clean, err := s.clean(r)
	var medium mayfly.Medium
	if err == nil {
		medium, err = s.o.Intake.AddAt(ctx, author, upload, n, clean)
	}
	after := slot{state: slotFilled, medium: medium}
	if err != nil {
		after = slot{state: slotEmpty} // AddAt takes no other bytes for what may have landed
	}
	ctx, cancel := afterAll(ctx)
	defer cancel()
	ended := s.endFilling(ctx, author, upload, n, nonce, after, now)
	if errors.Is(ended, mayfly.NotFound) { // the account was erased meanwhile (ST14)
		_, err := s.o.Erase.Abandon(ctx, upload)
		ended = errors.Join(ended, err)
	}
	if err = errors.Join(err, ended); err != nil {
		return mayfly.Medium{}, fmt.Errorf("put medium %d of upload %s: %w", n, upload, err)
	}
	return medium, nil
}

// filled is medium n of the upload if it has arrived.
func (s *Stories) filled(ctx context.Context, author mayfly.UserID, upload mayfly.ID, n int, now mayfly.Instant) (mayfly.Medium, bool, error) {
	row, _, err := s.readReserved(ctx, author, upload, now)
	if err != nil || n < 0 || n >= len(row.slots) || row.published || row.slots[n].state != slotFilled {
		return mayfly.Medium{}, false, err
	}
	return row.slots[n].medium, true, nil
}

// same takes a medium once more whose answer was lost: the same bytes are no
// conflict.
func (s *Stories) same(r io.Reader, there mayfly.Medium, n int) error {
	clean, err := s.clean(r)
	if err != nil {
		return err
	}
	hash := sha256.New()
	size, err := io.Copy(hash, clean)
	if err != nil {
		return fmt.Errorf("medium %d: %w", n, err)
	}
	if size != there.Size || [sha256.Size]byte(hash.Sum(nil)) != there.SHA256 {
		return mayfly.Errorf(mayfly.Conflict, "medium %d has arrived already, and is another one", n).WithHint("publish the upload, or reserve another")
	}
	return nil
}

// beginFilling claims the place of medium n.
func (s *Stories) beginFilling(ctx context.Context, author mayfly.UserID, upload mayfly.ID, n int, now mayfly.Instant) (nonce uint64, err error) {
	var random [8]byte
	if _, err := rand.Read(random[:]); err != nil {
		return 0, fmt.Errorf("random bits: %w", err)
	}
	nonce = binary.BigEndian.Uint64(random[:]) | 1
	return nonce, s.changeReserved(ctx, author, upload, now, func(row *reserved) error {
		if n < 0 || n >= len(row.slots) {
			return mayfly.NotFound
		}
		switch at := row.slots[n]; {
		case at.state == slotFilled:
			return mayfly.Errorf(mayfly.Conflict, "medium %d has arrived already", n).WithHint("publish the upload, or reserve another")
		case at.state == slotFilling && at.nonce == nonce:
			return nil
		case at.state == slotFilling && now.Sub(at.at) < fillWithin:
			return mayfly.Errorf(mayfly.Conflict, "medium %d is on its way", n).WithHint("wait for the other request to end")
		case at.state == slotFilling:
			return mayfly.Errorf(mayfly.Conflict, "medium %d was on its way and never arrived", n).WithHint("reserve another upload")
		}
		row.slots[n] = slot{state: slotFilling, nonce: nonce, at: now}
		return nil
	})
}

func (s *Stories) endFilling(ctx context.Context, author mayfly.UserID, upload mayfly.ID, n int, nonce uint64, after slot, now mayfly.Instant) error {
	return s.changeReserved(ctx, author, upload, now, func(row *reserved) error {
		if at := row.slots[n]; at.state != slotFilling || at.nonce != nonce {
			if at == after {
				return nil
			}
			return mayfly.Errorf(mayfly.Conflict, "the place of medium %d is not this request's any more", n).WithHint("reserve another upload")
		}
		row.slots[n] = after
		return nil
	})
}

func reservedKey(author mayfly.UserID, upload mayfly.ID) store.Key {
	return store.Key{Partition: string(author[:]), Clustering: string(upload[:])}
}

// readReserved reads author's reservation. Whoever else asks finds nothing there.
func (s *Stories) readReserved(ctx context.Context, author mayfly.UserID, upload mayfly.ID, now mayfly.Instant) (reserved, []byte, error) {
	if upload.ExpiredAt(now) {
		return reserved{}, nil, mayfly.Gone
	}
	if author.IsZero() {
		return reserved{}, nil, mayfly.NotFound
	}
	found, err := s.o.Rows.Get(ctx, store.Reservations, reservedKey(author, upload))
	if err != nil {
		return reserved{}, nil, fmt.Errorf("read reservation %s: %w", upload, err)
	}
	if found[0] == nil {
		return reserved{}, nil, mayfly.NotFound
	}
	row, err := readReserved(found[0])
	return row, found[0], err
}

// swapTries is more often than the media of one upload end at the same time.
const swapTries = 4 * mayfly.MaxMedia

// changeReserved changes the row by compare-and-set, as often as somebody else
// was faster. change must come to the same when it meets its own work.
func (s *Stories) changeReserved(ctx context.Context, author mayfly.UserID, upload mayfly.ID, now mayfly.Instant, change func(*reserved) error) error {
	for range swapTries {
		row, old, err := s.readReserved(ctx, author, upload, now)
		if err != nil {
			return err
		}
		if err := change(&row); err != nil {
			return err
		}
		swapped, _, err := s.swapReserved(ctx, author, upload, old, row)
		if errors.Is(err, mayfly.Unknown) {
			continue // the next look tells
		}
		if err != nil || swapped {
			return err
		}
	}
	return mayfly.Errorf(mayfly.Unavailable, "reservation %s keeps changing", upload).WithHint("try again")
}

func (s *Stories) swapReserved(ctx context.Context, author mayfly.UserID, upload mayfly.ID, old []byte, row reserved) (bool, []byte, error) {
	return s.o.Rows.Swap(ctx, store.Reservations, reservedKey(author, upload), old, row.append(nil), upload.Deadline().Add(24*time.Hour))
}
