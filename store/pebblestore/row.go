package pebblestore

import (
	"encoding/binary"

	"github.com/mayflyhq/mayfly"
)

// A row has a head of fixed offsets and a tail of fields that only some rows have:
// docs/format-pebble.md. The fields that a transition changes come first.
const (
	rowFormat = 2
	rowHead   = 44

	atState      = 1
	atFlags      = 2
	atCause      = 3
	atGeneration = 4
	atNonce      = 8
	atChanged    = 16
	atProduct    = 24 // product, fate, audience, media
	atOwner      = 28

	hasHold  = 1 << 0 // the row has a stamp of its hold
	hasRun   = 1 << 1
	hasServe = 1 << 2
	hasKeys  = 1 << 3 // the keys are not those of a new item
	hasMedia = 1 << 4 // the row has an upload id
	hasMoved = 1 << 5 // its last change was a hold or a release

	knownFlags = hasHold | hasRun | hasServe | hasKeys | hasMedia | hasMoved
	stampSize  = 12
)

// bornKeys returns the keys that an item with this number of media has at birth.
func bornKeys(media uint8) mayfly.Keys {
	if media == 0 {
		return mayfly.Keys{}
	}
	return mayfly.Keys{Hot: mayfly.Born}
}

// lastStamp returns the stamp that item has in Moved unless a hold or release came
// after it.
func lastStamp(item *mayfly.Item) mayfly.Stamp {
	if item.Generation == mayfly.Born {
		return mayfly.Stamp{}
	}
	return mayfly.Stamp{Generation: item.Generation, At: item.Changed}
}

func putStamp(b []byte, s mayfly.Stamp) {
	binary.BigEndian.PutUint32(b, uint32(s.Generation))
	binary.BigEndian.PutUint64(b[4:], uint64(s.At))
}

func readStamp(b []byte) mayfly.Stamp {
	return mayfly.Stamp{Generation: mayfly.Generation(binary.BigEndian.Uint32(b)), At: mayfly.Instant(binary.BigEndian.Uint64(b[4:]))}
}

// rowFlags returns the flags and the size of the row of item.
func rowFlags(item *mayfly.Item) (flags byte, size int) {
	size = rowHead
	if item.Held {
		flags |= hasHold
		size += stampSize
	}
	if item.Run != 0 {
		flags |= hasRun
		size += 8
	}
	if item.ServesUntil != 0 {
		flags |= hasServe
		size += 8
	}
	if item.Keys != bornKeys(item.Media) {
		flags |= hasKeys
		size += 8
	}
	if item.Media > 0 {
		flags |= hasMedia
		size += 16
	}
	if item.Moved != lastStamp(item) {
		flags |= hasMoved
		size += stampSize
	}
	return flags, size
}

// putRow writes the row of item into b. Flags and the size of b are rowFlags'.
func putRow(b []byte, item *mayfly.Item, flags byte) {
	b[0], b[atState], b[atFlags], b[atCause] = rowFormat, byte(item.State), flags, byte(item.Cause)
	binary.BigEndian.PutUint32(b[atGeneration:], uint32(item.Generation))
	binary.BigEndian.PutUint64(b[atNonce:], uint64(item.Nonce))
	binary.BigEndian.PutUint64(b[atChanged:], uint64(item.Changed))
	b[atProduct], b[atProduct+1], b[atProduct+2], b[atProduct+3] = byte(item.Product), byte(item.Fate), byte(item.Audience), item.Media
	copy(b[atOwner:], item.Owner[:])
	b = b[rowHead:]
	if flags&hasHold != 0 {
		putStamp(b, item.Hold)
		b = b[stampSize:]
	}
	if flags&hasRun != 0 {
		binary.BigEndian.PutUint64(b, uint64(item.Run))
		b = b[8:]
	}
	if flags&hasServe != 0 {
		binary.BigEndian.PutUint64(b, uint64(item.ServesUntil))
		b = b[8:]
	}
	if flags&hasKeys != 0 {
		binary.BigEndian.PutUint32(b, uint32(item.Keys.Hot))
		binary.BigEndian.PutUint32(b[4:], uint32(item.Keys.Cold))
		b = b[8:]
	}
	if flags&hasMedia != 0 {
		copy(b, item.Upload[:])
		b = b[16:]
	}
	if flags&hasMoved != 0 {
		putStamp(b, item.Moved)
	}
}

// readRow decodes the row of id into item. Bytes that putRow cannot have written are
// Corrupt.
func readRow(item *mayfly.Item, id mayfly.ID, b []byte) error {
	if len(b) < rowHead || b[0] != rowFormat || b[atFlags]&^knownFlags != 0 {
		return mayfly.Errorf(mayfly.Corrupt, "row of %s: its %d bytes cannot be decoded", id, len(b))
	}
	flags := b[atFlags]
	*item = mayfly.Item{
		ID:         id,
		Owner:      mayfly.UserID(b[atOwner:rowHead]),
		Product:    mayfly.Product(b[atProduct]),
		Fate:       mayfly.Fate(b[atProduct+1]),
		Audience:   mayfly.Audience(b[atProduct+2]),
		Media:      b[atProduct+3],
		State:      mayfly.State(b[atState]),
		Generation: mayfly.Generation(binary.BigEndian.Uint32(b[atGeneration:])),
		Nonce:      mayfly.Nonce(binary.BigEndian.Uint64(b[atNonce:])),
		Cause:      mayfly.Cause(b[atCause]),
		Changed:    mayfly.Instant(binary.BigEndian.Uint64(b[atChanged:])),
		Held:       flags&hasHold != 0,
	}
	item.Keys, item.Moved = bornKeys(item.Media), lastStamp(item)
	rest := b[rowHead:]
	take := func(flag byte, n int) []byte {
		if flags&flag == 0 || len(rest) < n {
			return nil
		}
		part := rest[:n]
		rest = rest[n:]
		return part
	}
	if part := take(hasHold, stampSize); part != nil {
		item.Hold = readStamp(part)
	}
	if part := take(hasRun, 8); part != nil {
		item.Run = mayfly.Run(binary.BigEndian.Uint64(part))
	}
	if part := take(hasServe, 8); part != nil {
		item.ServesUntil = mayfly.Instant(binary.BigEndian.Uint64(part))
	}
	if part := take(hasKeys, 8); part != nil {
		item.Keys = mayfly.Keys{Hot: mayfly.Generation(binary.BigEndian.Uint32(part)), Cold: mayfly.Generation(binary.BigEndian.Uint32(part[4:]))}
	}
	if part := take(hasMedia, 16); part != nil {
		item.Upload = mayfly.ID(part)
	}
	if part := take(hasMoved, stampSize); part != nil {
		item.Moved = readStamp(part)
	}
	// An item has exactly one encoding: flags and size must be the ones it would get.
	if again, size := rowFlags(item); again != flags || size != len(b) {
		return mayfly.Errorf(mayfly.Corrupt, "row of %s: its %d bytes cannot be decoded", id, len(b))
	}
	return nil
}
