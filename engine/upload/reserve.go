package upload

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/media"
)

// fillWithin is how long the request that fills a slot may take. A slot that was
// not filled by then is never used again: its bytes may still land.
const fillWithin = 10 * time.Minute

// maxTries is how often a medium may be sent in vain: a client that never succeeds
// must not go on for as long as its reservation is kept (C9).
const maxTries = 10

// Reservation is an upload whose media arrive one by one (ST1).
type Reservation struct {
	Upload   mayfly.ID
	Deadline mayfly.Instant // publish before
	Media    []Arrival
}

// Arrival is one medium of a reservation.
type Arrival struct {
	Length int64 // bytes that are to be sent
	Done   bool
	Medium mayfly.Medium // if Done
}

// Expected is a medium that a client is going to send.
type Expected struct {
	// Type is what the client takes it for; may be empty. The type is detected from
	// the bytes; this one is for refusing a medium before it is sent.
	Type   string
	Length int64 // in bytes, as they are sent
}

// Reserve makes room for an upload, and counts it against the budget of its owner.
// Errors: Invalid, TooLarge, Unsupported, Limited (the budget; errors.As finds
// OverBudget), those of Begin, Unavailable.
func (u *Uploads) Reserve(ctx context.Context, owner mayfly.UserID, expected []Expected, now mayfly.Instant) (Reservation, error) {
	if len(expected) < 1 || len(expected) > u.o.MaxMedia {
		return Reservation{}, mayfly.Errorf(mayfly.Invalid, "reserve: %d media", len(expected)).WithHint(fmt.Sprintf("reserve 1 to %d media", u.o.MaxMedia))
	}
	var row reserved
	var total int64
	for n, m := range expected {
		if err := u.check(m); err != nil {
			return Reservation{}, fmt.Errorf("reserve: medium %d: %w", n, err)
		}
		row.slots = append(row.slots, slot{length: m.Length, state: slotEmpty})
		total += m.Length
	}
	if total > u.o.MaxUnpublished {
		return Reservation{}, mayfly.Errorf(mayfly.TooLarge, "reserve: %d bytes, at most %d may wait to be published", total, u.o.MaxUnpublished).WithHint("publish fewer media at once")
	}
	upload, err := u.Begin(owner, now)
	if err != nil {
		return Reservation{}, fmt.Errorf("reserve: %w", err)
	}
	if err := u.open(ctx, owner, openUpload{upload.ID, total}, now); err != nil {
		return Reservation{}, fmt.Errorf("reserve: %w", err)
	}
	swapped, _, err := u.set.Rows.Swap(ctx, Reservations, reservedKey(owner, upload.ID), nil, row.append(nil), reclaimAt(upload.ID))
	if err == nil && !swapped {
		err = mayfly.Errorf(mayfly.Unavailable, "the id %s is taken", upload.ID).WithHint("try again")
	}
	if err != nil {
		return Reservation{}, fmt.Errorf("reserve: %w", err)
	}
	return row.reservation(upload.ID), nil
}

// check reports why a medium would be refused when it is sent.
func (u *Uploads) check(m Expected) error {
	most := u.largest()
	switch {
	case m.Type == "":
	case !slices.Contains(media.Taken(), m.Type):
		return mayfly.Errorf(mayfly.Unsupported, "the type %.40q is not supported", m.Type).WithHint("send " + strings.Join(media.Taken(), ", "))
	case media.HasPicture(m.Type):
		most = u.o.Limits.Image
	default:
		most = u.o.Limits.Video
	}
	switch {
	case m.Length < 1:
		return mayfly.Errorf(mayfly.Invalid, "a length of %d bytes", m.Length).WithHint("name the length of each medium in bytes, as it will be sent")
	case m.Length > most:
		return mayfly.Errorf(mayfly.TooLarge, "%d bytes, at most %d", m.Length, most).WithHint("send a smaller one")
	}
	return nil
}

// Reservation returns how far an upload of owner's has come. Errors: NotFound
// (also if it is another user's), Gone, Corrupt, Unavailable.
func (u *Uploads) Reservation(ctx context.Context, owner mayfly.UserID, upload mayfly.ID, now mayfly.Instant) (Reservation, error) {
	row, err := u.reserved(ctx, owner, upload, now)
	if err != nil {
		return Reservation{}, err
	}
	return row.reservation(upload), nil
}

// Put cleans and stores medium n of a reservation; it is durable on return. The
// same bytes sent again get the same answer. Errors: NotFound (no such medium, or
// another user's upload), Gone, Conflict (other bytes have arrived, or another
// request is storing it), Invalid (not as long as reserved), Limited, and those of
// cleaning and storing.
func (u *Uploads) Put(ctx context.Context, owner mayfly.UserID, upload mayfly.ID, n int, r io.Reader, now mayfly.Instant) (mayfly.Medium, error) {
	row, err := u.reserved(ctx, owner, upload, now)
	if err != nil {
		return mayfly.Medium{}, err
	}
	end, err := u.inProgress.begin(owner, u.o.MaxConcurrent)
	if err != nil {
		return mayfly.Medium{}, err
	}
	defer end()
	if n < 0 || n >= len(row.slots) {
		return mayfly.Medium{}, mayfly.NotFound
	}
	r = &exactly{r: r, want: row.slots[n].length}
	if row.slots[n].state == slotFilled && !row.published {
		return u.repeated(r, n, row.slots[n].medium)
	}
	claimed, err := u.claimSlot(ctx, owner, upload, n, now)
	if err != nil {
		return mayfly.Medium{}, err
	}
	medium, err := u.store(ctx, upload, n, r)
	after := slot{length: claimed.length, state: slotFilled, medium: medium}
	if err != nil {
		after = slot{length: claimed.length, state: slotEmpty, tries: claimed.tries} // if the bytes landed nevertheless, store accepts only the same ones
		if !errors.Is(err, mayfly.Unavailable) && !errors.Is(err, mayfly.Unknown) && !errors.Is(err, mayfly.Full) {
			after.tries++
		}
	}
	ctx, cancel := detached(ctx)
	defer cancel()
	released := u.releaseSlot(ctx, owner, upload, n, claimed.nonce, after, now)
	if errors.Is(released, mayfly.NotFound) { // the account was erased meanwhile (ST14)
		_, abandoned := Abandon(ctx, u.set, upload)
		released = errors.Join(released, abandoned)
	}
	if err = errors.Join(err, released); err != nil {
		return mayfly.Medium{}, fmt.Errorf("put medium %d of upload %s: %w", n, upload, err)
	}
	return medium, nil
}

// exactly reads a medium that must have the length that was reserved for it: the
// budget of its author counts these bytes, and no others.
type exactly struct {
	r          io.Reader
	want, read int64
}

func (e *exactly) Read(p []byte) (int, error) {
	n, err := e.r.Read(p)
	e.read += int64(n)
	if e.read > e.want || e.read < e.want && errors.Is(err, io.EOF) {
		than := "fewer"
		if e.read > e.want {
			than = "more"
		}
		return 0, mayfly.Errorf(mayfly.Invalid, "the medium has %s bytes than the %d that were reserved", than, e.want).
			WithHint("send the medium that was reserved, or reserve another upload with the length of this one")
	}
	return n, err
}

// repeated answers a medium that has arrived before, perhaps because the first
// answer was lost.
func (u *Uploads) repeated(r io.Reader, n int, stored mayfly.Medium) (mayfly.Medium, error) {
	clean, err := u.clean(r)
	if err != nil {
		return mayfly.Medium{}, err
	}
	defer clean.Close() // returns no error
	return stored, sameBytes(clean, n, stored.Size, stored.SHA256)
}

// store cleans r and stores it as medium n, unless an earlier request whose
// answer was lost has stored the same bytes: an object that an item may name is
// never replaced (I14).
func (u *Uploads) store(ctx context.Context, upload mayfly.ID, n int, r io.Reader) (mayfly.Medium, error) {
	clean, err := u.clean(r)
	if err != nil {
		return mayfly.Medium{}, err
	}
	defer clean.Close() // returns no error
	stored, err := u.set.Hot.Stat(ctx, mayfly.UploadKey(upload, n))
	if errors.Is(err, mayfly.NotFound) || err == nil && stored.Size == 0 { // empty: left by a request that failed
		return u.put(ctx, upload, n, clean)
	}
	if err != nil {
		return mayfly.Medium{}, fmt.Errorf("look for medium %d: %w", n, err)
	}
	if err := sameBytes(clean, n, stored.Size, stored.SHA256); err != nil {
		return mayfly.Medium{}, err
	}
	return (&content{r: clean}).describe(stored), nil
}

// sameBytes reads r to its end and compares it with medium n as it is stored.
// Errors: Conflict, and what r returned.
func sameBytes(r io.Reader, n int, size int64, sum [sha256.Size]byte) error {
	hash := sha256.New()
	read, err := io.Copy(hash, r)
	if err != nil {
		return fmt.Errorf("medium %d: %w", n, err)
	}
	if read != size || [sha256.Size]byte(hash.Sum(nil)) != sum {
		return mayfly.Errorf(mayfly.Conflict, "medium %d has arrived already with other bytes", n).WithHint("publish the upload, or reserve another")
	}
	return nil
}

// claimSlot gives the slot of medium n to the request with the returned nonce.
func (u *Uploads) claimSlot(ctx context.Context, owner mayfly.UserID, upload mayfly.ID, n int, now mayfly.Instant) (claimed slot, err error) {
	var random [8]byte
	if _, err := rand.Read(random[:]); err != nil {
		return slot{}, fmt.Errorf("random bits: %w", err)
	}
	nonce := binary.BigEndian.Uint64(random[:]) | 1
	err = u.change(ctx, owner, upload, now, func(row *reserved) error {
		switch at := row.slots[n]; {
		case at.state == slotFilled:
			return mayfly.Errorf(mayfly.Conflict, "medium %d has arrived already", n).WithHint("publish the upload, or reserve another")
		case at.state == slotFilling && at.nonce == nonce:
			claimed = at
			return nil
		case at.filling(now):
			return mayfly.Errorf(mayfly.Conflict, "medium %d is on its way", n).WithHint("wait for the other request to end")
		case at.state == slotFilling:
			return mayfly.Errorf(mayfly.Conflict, "medium %d was on its way and never arrived", n).WithHint("reserve another upload")
		}
		if row.slots[n].tries >= maxTries {
			return mayfly.Errorf(mayfly.Conflict, "medium %d was sent %d times and never accepted", n, maxTries).WithHint("reserve another upload")
		}
		claimed = slot{length: row.slots[n].length, state: slotFilling, nonce: nonce, at: now, tries: row.slots[n].tries}
		row.slots[n] = claimed
		return nil
	})
	return claimed, err
}

// releaseSlot ends the claim of the request with the nonce.
func (u *Uploads) releaseSlot(ctx context.Context, owner mayfly.UserID, upload mayfly.ID, n int, nonce uint64, after slot, now mayfly.Instant) error {
	return u.change(ctx, owner, upload, now, func(row *reserved) error {
		if at := row.slots[n]; at.state != slotFilling || at.nonce != nonce {
			if at == after {
				return nil
			}
			return mayfly.Errorf(mayfly.Conflict, "the slot of medium %d does not belong to this request any more", n).WithHint("reserve another upload")
		}
		row.slots[n] = after
		return nil
	})
}

// Claim binds a reservation whose media have all arrived to one idempotency key,
// and returns its upload: an upload becomes one item (L11). known reports whether
// the key stands for a birth already; it is asked only if the reservation was
// claimed before. Errors: NotFound, Gone, Conflict, Unavailable.
func (u *Uploads) Claim(ctx context.Context, owner mayfly.UserID, upload mayfly.ID, key string, known func() (bool, error), now mayfly.Instant) (*Upload, error) {
	claim := sha256.Sum256([]byte(key))
	var stored []mayfly.Medium
	err := u.change(ctx, owner, upload, now, func(row *reserved) error {
		stored = nil
		for n, at := range row.slots {
			if at.state != slotFilled {
				return mayfly.Errorf(mayfly.Conflict, "medium %d of upload %s has not arrived", n, upload).WithHint("put it, then publish")
			}
			stored = append(stored, at.medium)
		}
		switch {
		case row.claimedAt == 0:
			row.claimed, row.claimedAt = claim, now
			return nil
		case row.claimed != claim:
			return mayfly.Errorf(mayfly.Conflict, "upload %s is published with another idempotency key", upload).
				WithHint("repeat it with the same key, or reserve another upload")
		case !row.published && now.Sub(row.claimedAt) < fillWithin:
			return nil
		}
		if is, err := known(); err != nil || is {
			return err
		}
		// The key may have been forgotten: a birth under it now could be a second one.
		return mayfly.Errorf(mayfly.Conflict, "upload %s is published, or may have been", upload).WithHint("reserve another upload")
	})
	if err != nil {
		return nil, err
	}
	return &Upload{ID: upload, all: u, owner: owner, stored: stored}, nil
}

// Published notes that a reservation was published: nothing can be put to it any
// more.
func (u *Uploads) Published(ctx context.Context, owner mayfly.UserID, upload mayfly.ID, now mayfly.Instant) error {
	return u.change(ctx, owner, upload, now, func(row *reserved) error {
		row.published = true
		return nil
	})
}

// detachedWithin is how long work may take that goes on after its caller has gone.
const detachedWithin = 5 * time.Second

// detached returns a context for work that has to be done even if the caller has
// gone.
func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), detachedWithin)
}
