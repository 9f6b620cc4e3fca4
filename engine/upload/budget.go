package upload

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// inProgress counts the media that each user is sending to this node: a user who
// sends many of them slowly must not take what the others need (C9).
type inProgress struct {
	mu  sync.Mutex
	now map[mayfly.UserID]int
}

// begin counts one more medium of owner's, of at most most, until end is called.
// Errors: Limited.
func (p *inProgress) begin(owner mayfly.UserID, most int) (end func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !owner.IsZero() && p.now[owner] >= most {
		return nil, mayfly.Errorf(mayfly.Limited, "%d media of this user are being received already", most).WithHint("wait until one of them is stored, then send the next")
	}
	p.now[owner]++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.now[owner]--; p.now[owner] == 0 {
			delete(p.now, owner)
		}
	}, nil
}

// openUpload is an entry of the row that lists an author's open reservations. It
// counts until the reservation is published or past its deadline.
type openUpload struct {
	id    mayfly.ID
	bytes int64
}

// open counts a new reservation against its author's budget (C9). The row is
// changed by compare-and-set, so that neither concurrent requests nor a restart
// lose an entry. Entries that are past their deadline are dropped by their id;
// those that were published are looked up only when the budget seems used up, so
// that publishing writes nothing here. Errors: Limited, Corrupt, Unavailable.
func (u *Uploads) open(ctx context.Context, owner mayfly.UserID, one openUpload, now mayfly.Instant) error {
	_, err := store.Update(ctx, u.set.Rows, OpenUploads, openKey(owner), reclaimAt(one.id), func(old []byte) ([]byte, error) {
		all, err := readOpen(old)
		if err != nil || slices.Contains(all, one) {
			return old, err
		}
		all = slices.DeleteFunc(all, func(o openUpload) bool { return o.id.ExpiredAt(now) })
		if !u.fits(append(all, one)) {
			if all, err = u.stillOpen(ctx, owner, all, now); err != nil {
				return nil, err
			}
		}
		if all = append(all, one); !u.fits(all) {
			return nil, u.overBudget(all[:len(all)-1], now)
		}
		return appendOpen(all), nil
	})
	return err
}

// fits reports whether the reservations are within the budget.
func (u *Uploads) fits(all []openUpload) bool {
	return len(all) <= u.o.MaxOpen && sumOf(all) <= u.o.MaxUnpublished
}

func sumOf(all []openUpload) (bytes int64) {
	for _, o := range all {
		bytes += o.bytes
	}
	return bytes
}

// stillOpen returns the entries whose reservation is open: it may be written later
// than its entry, and as long as a presigned URL is good, bytes may still arrive.
func (u *Uploads) stillOpen(ctx context.Context, owner mayfly.UserID, all []openUpload, now mayfly.Instant) ([]openUpload, error) {
	if len(all) == 0 {
		return nil, nil
	}
	keys := make([]store.Key, len(all))
	for i, o := range all {
		keys[i] = reservedKey(owner, o.id)
	}
	rows, err := u.set.Rows.Get(ctx, Reservations, keys...)
	if err != nil {
		return nil, fmt.Errorf("read %d open reservations: %w", len(all), err)
	}
	var open []openUpload
	for i, o := range all {
		if rows[i] == nil {
			if o.id.Birth().Add(fillWithin) > now {
				open = append(open, o)
			}
			continue
		}
		row, err := readReserved(rows[i])
		if err != nil {
			return nil, err
		}
		if !row.published || row.urlsUntil > now {
			open = append(open, o)
		}
	}
	return open, nil
}

func (u *Uploads) overBudget(all []openUpload, now mayfly.Instant) error {
	first := slices.MinFunc(all, func(a, b openUpload) int { return int(a.id.Deadline() - b.id.Deadline()) })
	return mayfly.Wrap(mayfly.Limited, OverBudget{Uploads: len(all), Bytes: sumOf(all), Wait: first.id.Deadline().Sub(now)},
		fmt.Sprintf("publish the uploads that are open, at most %d and %d bytes; what is not published by its deadline stops counting", u.o.MaxOpen, u.o.MaxUnpublished))
}

// OverBudget is the error for an author whose open reservations use up the budget;
// errors.As finds it. Its kind is mayfly.Limited.
type OverBudget struct {
	Uploads int
	Bytes   int64
	Wait    time.Duration // until the first of them is past its deadline
}

// Error returns what is open.
func (o OverBudget) Error() string {
	return fmt.Sprintf("%d uploads with %d bytes are reserved and not published", o.Uploads, o.Bytes)
}

// RetryAfter returns after how long a retry can succeed without publishing.
func (o OverBudget) RetryAfter() time.Duration { return o.Wait }

func openKey(owner mayfly.UserID) store.Key { return store.Key{Partition: string(owner[:])} }

const (
	openFormat = 1
	openSize   = 16 + 8
)

func appendOpen(all []openUpload) []byte {
	b := []byte{openFormat}
	for _, o := range all {
		b = binary.BigEndian.AppendUint64(append(b, o.id[:]...), uint64(o.bytes))
	}
	return b
}

// readOpen reads what appendOpen wrote. A row that does not exist has no entries.
func readOpen(b []byte) (all []openUpload, err error) {
	if b == nil {
		return nil, nil
	}
	if len(b)%openSize != 1 || b[0] != openFormat {
		return nil, mayfly.Errorf(mayfly.Corrupt, "a list of open reservations of %d bytes cannot be read", len(b))
	}
	for b = b[1:]; len(b) > 0; b = b[openSize:] {
		all = append(all, openUpload{mayfly.ID(b[:16]), int64(binary.BigEndian.Uint64(b[16:]))})
	}
	return all, nil
}
