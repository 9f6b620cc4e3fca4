package upload

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// reserved is the row of a reservation, changed by compare-and-set only.
type reserved struct {
	slots []slot
	// claimed is the hash of the idempotency key that the upload is published
	// with, claimedAt the time of that claim (L11).
	claimed   [32]byte
	claimedAt mayfly.Instant // 0: not yet
	published bool
	urlsUntil mayfly.Instant // when the last presigned URL ends; 0: there was none
}

// slot is the place of one medium of a reservation.
type slot struct {
	length int64 // bytes that are to be sent
	state  slotState
	nonce  uint64 // of the request that fills it
	at     mayfly.Instant
	tries  uint8 // requests that have sent it and failed
	medium mayfly.Medium
}

type slotState uint8

const (
	slotEmpty   slotState = iota + 1
	slotFilling           // by the request with the nonce, since at
	slotFilled
)

// filling reports whether a request may still be filling the slot.
func (s slot) filling(now mayfly.Instant) bool {
	return s.state == slotFilling && now.Sub(s.at) < fillWithin
}

func (r reserved) reservation(upload mayfly.ID) Reservation {
	v := Reservation{Upload: upload, Deadline: upload.Deadline(), Media: make([]Arrival, len(r.slots))}
	for i, s := range r.slots {
		v.Media[i].Length = s.length
		if s.state == slotFilled {
			v.Media[i].Done, v.Media[i].Medium = true, s.medium
		}
	}
	return v
}

func reservedKey(owner mayfly.UserID, upload mayfly.ID) store.Key {
	return store.Key{Partition: string(owner[:]), Clustering: string(upload[:])}
}

// reclaimAt returns when the row of a reservation may be removed.
func reclaimAt(upload mayfly.ID) mayfly.Instant { return upload.Deadline().Add(24 * time.Hour) }

// reserved reads a reservation of owner's. Another user's is NotFound.
func (u *Uploads) reserved(ctx context.Context, owner mayfly.UserID, upload mayfly.ID, now mayfly.Instant) (reserved, error) {
	if upload.ExpiredAt(now) {
		return reserved{}, mayfly.Gone
	}
	if owner.IsZero() {
		return reserved{}, mayfly.NotFound
	}
	found, err := u.set.Rows.Get(ctx, Reservations, reservedKey(owner, upload))
	if err != nil {
		return reserved{}, fmt.Errorf("read reservation %s: %w", upload, err)
	}
	return readReserved(found[0])
}

// change changes the row by compare-and-set. do may be called several times, and
// must have the same result when it is applied to its own work.
func (u *Uploads) change(ctx context.Context, owner mayfly.UserID, upload mayfly.ID, now mayfly.Instant, do func(*reserved) error) error {
	if upload.ExpiredAt(now) {
		return mayfly.Gone
	}
	if owner.IsZero() {
		return mayfly.NotFound
	}
	_, err := store.Update(ctx, u.set.Rows, Reservations, reservedKey(owner, upload), reclaimAt(upload), func(old []byte) ([]byte, error) {
		row, err := readReserved(old)
		if err == nil {
			err = do(&row)
		}
		return row.append(nil), err
	})
	return err
}

const reservedFormat = 3

func (r reserved) append(b []byte) []byte {
	b = append(b, reservedFormat)
	b = append(b, r.claimed[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(r.claimedAt))
	b = binary.BigEndian.AppendUint64(b, uint64(r.urlsUntil))
	published := byte(0)
	if r.published {
		published = 1
	}
	b = append(b, published, byte(len(r.slots)))
	for _, s := range r.slots {
		b = binary.BigEndian.AppendUint64(b, uint64(s.length))
		b = append(b, byte(s.state))
		b = binary.BigEndian.AppendUint64(b, s.nonce)
		b = binary.BigEndian.AppendUint64(b, uint64(s.at))
		b = append(b, s.tries, byte(len(s.medium.Type)))
		b = append(b, s.medium.Type...)
		b = binary.BigEndian.AppendUint64(b, uint64(s.medium.Size))
		b = append(b, s.medium.SHA256[:]...)
		b = binary.BigEndian.AppendUint32(b, s.medium.Width)
		b = binary.BigEndian.AppendUint32(b, s.medium.Height)
	}
	return b
}

const (
	reservedHead = 1 + 32 + 8 + 8 + 1 + 1
	slotHead     = 8 + 1 + 8 + 8 + 1 + 1
	slotTail     = 8 + 32 + 4 + 4
)

// readReserved reads what append wrote. A row that does not exist is NotFound.
func readReserved(b []byte) (reserved, error) {
	if b == nil {
		return reserved{}, mayfly.NotFound
	}
	bad := mayfly.Errorf(mayfly.Corrupt, "a reservation of %d bytes cannot be read", len(b))
	if len(b) < reservedHead || b[0] != reservedFormat {
		return reserved{}, bad
	}
	r := reserved{
		claimed: [32]byte(b[1:33]), claimedAt: mayfly.Instant(binary.BigEndian.Uint64(b[33:])),
		urlsUntil: mayfly.Instant(binary.BigEndian.Uint64(b[41:])), published: b[49] == 1,
	}
	count := int(b[50])
	b = b[reservedHead:]
	for range count {
		if len(b) < slotHead || len(b) < slotHead+int(b[slotHead-1])+slotTail {
			return reserved{}, bad
		}
		s := slot{
			length: int64(binary.BigEndian.Uint64(b)), state: slotState(b[8]), nonce: binary.BigEndian.Uint64(b[9:]),
			at: mayfly.Instant(binary.BigEndian.Uint64(b[17:])), tries: b[25],
		}
		name, tail := b[slotHead:slotHead+int(b[slotHead-1])], b[slotHead+int(b[slotHead-1]):]
		s.medium = mayfly.Medium{
			Type: string(name), Size: int64(binary.BigEndian.Uint64(tail)), SHA256: [32]byte(tail[8:40]),
			Width: binary.BigEndian.Uint32(tail[40:]), Height: binary.BigEndian.Uint32(tail[44:]),
		}
		r.slots, b = append(r.slots, s), tail[slotTail:]
	}
	if len(b) != 0 {
		return reserved{}, bad
	}
	return r, nil
}
