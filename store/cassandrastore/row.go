package cassandrastore

import (
	"encoding/binary"

	"github.com/mayflyhq/mayfly"
)

// A row is one value with fields at fixed offsets, so that it is written, compared and
// replaced as a whole: docs/format-cassandra.md.
const (
	rowFormat = 2
	rowSize   = 108

	atState      = 1
	atCause      = 2
	atHeld       = 3
	atProduct    = 4 // product, fate, audience, media
	atGeneration = 8
	atHot        = 12
	atCold       = 16
	atNonce      = 20
	atRun        = 28
	atChanged    = 36
	atServes     = 44
	atOwner      = 52
	atUpload     = 68
	atMoved      = 84
	atHold       = 96
)

func rowBytes(item mayfly.Item) []byte {
	b := make([]byte, rowSize)
	b[0], b[atState], b[atCause] = rowFormat, byte(item.State), byte(item.Cause)
	if item.Held {
		b[atHeld] = 1
	}
	b[atProduct], b[atProduct+1], b[atProduct+2], b[atProduct+3] = byte(item.Product), byte(item.Fate), byte(item.Audience), item.Media
	binary.BigEndian.PutUint32(b[atGeneration:], uint32(item.Generation))
	binary.BigEndian.PutUint32(b[atHot:], uint32(item.Keys.Hot))
	binary.BigEndian.PutUint32(b[atCold:], uint32(item.Keys.Cold))
	binary.BigEndian.PutUint64(b[atNonce:], uint64(item.Nonce))
	binary.BigEndian.PutUint64(b[atRun:], uint64(item.Run))
	binary.BigEndian.PutUint64(b[atChanged:], uint64(item.Changed))
	binary.BigEndian.PutUint64(b[atServes:], uint64(item.ServesUntil))
	copy(b[atOwner:], item.Owner[:])
	copy(b[atUpload:], item.Upload[:])
	putStamp(b[atMoved:], item.Moved)
	putStamp(b[atHold:], item.Hold)
	return b
}

func putStamp(b []byte, s mayfly.Stamp) {
	binary.BigEndian.PutUint32(b, uint32(s.Generation))
	binary.BigEndian.PutUint64(b[4:], uint64(s.At))
}

func readStamp(b []byte) mayfly.Stamp {
	return mayfly.Stamp{Generation: mayfly.Generation(binary.BigEndian.Uint32(b)), At: mayfly.Instant(binary.BigEndian.Uint64(b[4:]))}
}

// readRow decodes the row at (at, id). Bytes that rowBytes cannot have written, and a
// row at the place of another, are Corrupt.
func readRow(at int64, id, b []byte) (mayfly.Item, error) {
	if len(id) != len(mayfly.ID{}) || !mayfly.ID(id).Valid() || placeOf(mayfly.ID(id)).at != at {
		return mayfly.Item{}, mayfly.Errorf(mayfly.Corrupt, "a row at %d with the id %x", at, id)
	}
	if len(b) != rowSize || b[0] != rowFormat || b[atHeld] > 1 {
		return mayfly.Item{}, mayfly.Errorf(mayfly.Corrupt, "row of %s: %d bytes that cannot be read", mayfly.ID(id), len(b))
	}
	return mayfly.Item{
		ID:       mayfly.ID(id),
		Owner:    mayfly.UserID(b[atOwner:atUpload]),
		Product:  mayfly.Product(b[atProduct]),
		Fate:     mayfly.Fate(b[atProduct+1]),
		Audience: mayfly.Audience(b[atProduct+2]),
		Media:    b[atProduct+3],
		Upload:   mayfly.ID(b[atUpload:atMoved]),

		State:       mayfly.State(b[atState]),
		Generation:  mayfly.Generation(binary.BigEndian.Uint32(b[atGeneration:])),
		Nonce:       mayfly.Nonce(binary.BigEndian.Uint64(b[atNonce:])),
		Run:         mayfly.Run(binary.BigEndian.Uint64(b[atRun:])),
		Cause:       mayfly.Cause(b[atCause]),
		Changed:     mayfly.Instant(binary.BigEndian.Uint64(b[atChanged:])),
		Moved:       readStamp(b[atMoved:]),
		Held:        b[atHeld] == 1,
		Hold:        readStamp(b[atHold:]),
		ServesUntil: mayfly.Instant(binary.BigEndian.Uint64(b[atServes:])),
		Keys: mayfly.Keys{
			Hot:  mayfly.Generation(binary.BigEndian.Uint32(b[atHot:])),
			Cold: mayfly.Generation(binary.BigEndian.Uint32(b[atCold:])),
		},
	}, nil
}
