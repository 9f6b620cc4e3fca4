package story

import (
	"encoding/binary"

	"github.com/mayflyhq/mayfly"
)

// Reservation is an upload whose media arrive one by one (ST1).
type Reservation struct {
	Upload   mayfly.ID
	Deadline mayfly.Instant // publish before
	Media    []Arrival
}

// Arrival is one medium of a reservation.
type Arrival struct {
	Done   bool
	Medium mayfly.Medium // when it is done
}

// slotState is how far a medium of a reservation has come.
type slotState uint8

const (
	slotEmpty   slotState = iota + 1
	slotFilling           // by the request with the nonce, since at
	slotFilled
)

// slot is one medium of a reservation.
type slot struct {
	state  slotState
	nonce  uint64
	at     mayfly.Instant
	medium mayfly.Medium
}

// reserved is the row of a reservation.
type reserved struct {
	slots []slot
	// claimed is the hash of the idempotency key under which it is published, and
	// claimedAt since when: an upload becomes one story (L11).
	claimed   [32]byte
	claimedAt mayfly.Instant // 0: not yet
	published bool
}

const reservedFormat = 1

func (r reserved) append(b []byte) []byte {
	b = append(b, reservedFormat)
	b = append(b, r.claimed[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(r.claimedAt))
	b = append(b, flag(r.published), byte(len(r.slots)))
	for _, s := range r.slots {
		b = append(b, byte(s.state))
		b = binary.BigEndian.AppendUint64(b, s.nonce)
		b = binary.BigEndian.AppendUint64(b, uint64(s.at))
		b = append(b, byte(len(s.medium.Type)))
		b = append(b, s.medium.Type...)
		b = binary.BigEndian.AppendUint64(b, uint64(s.medium.Size))
		b = append(b, s.medium.SHA256[:]...)
		b = binary.BigEndian.AppendUint32(b, s.medium.Width)
		b = binary.BigEndian.AppendUint32(b, s.medium.Height)
	}
	return b
}

func flag(set bool) byte {
	if set {
		return 1
	}
	return 0
}

const (
	reservedHead = 1 + 32 + 8 + 1 + 1
	slotHead     = 1 + 8 + 8 + 1
	slotTail     = 8 + 32 + 4 + 4
)

func readReserved(b []byte) (reserved, error) {
	bad := mayfly.Errorf(mayfly.Corrupt, "a reservation of %d bytes cannot be read", len(b))
	if len(b) < reservedHead || b[0] != reservedFormat {
		return reserved{}, bad
	}
	r := reserved{claimed: [32]byte(b[1:33]), claimedAt: mayfly.Instant(binary.BigEndian.Uint64(b[33:])), published: b[41] == 1}
	count := int(b[42])
	b = b[reservedHead:]
	for range count {
		if len(b) < slotHead || len(b) < slotHead+int(b[slotHead-1])+slotTail {
			return reserved{}, bad
		}
		s := slot{state: slotState(b[0]), nonce: binary.BigEndian.Uint64(b[1:]), at: mayfly.Instant(binary.BigEndian.Uint64(b[9:]))}
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

func (r reserved) shown(upload mayfly.ID) Reservation {
	v := Reservation{Upload: upload, Deadline: upload.Deadline(), Media: make([]Arrival, len(r.slots))}
	for i, s := range r.slots {
		if s.state == slotFilled {
			v.Media[i] = Arrival{Done: true, Medium: s.medium}
		}
	}
	return v
}

// uploadKeyPrefix begins the idempotency key of an upload that is published
// without one.
const uploadKeyPrefix = "upload:"

// keyOf is the key under which an upload is published: a retry without a key is
// a retry all the same.
func keyOf(upload mayfly.ID, key string) string {
	if key == "" {
		return uploadKeyPrefix + upload.Short()
	}
	return key
}
