// Package remind is in charge of reminders: durable notes to do a step for an
// item at an instant (L15). They are a safety net behind deletes, restores,
// retries and walks that had to go on without an item.
//
// A reminder is never deleted one by one: its walk passes, reads the item's row
// again and usually finds nothing to do.
package remind

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// Step is what is to be done.
type Step uint8

// The steps.
const (
	Announce Step = iota + 1 // append the event of a birth
	Expire                   // do what the sweep does at the deadline
	Archive                  // move its media to cold storage
)

// String is the step's word.
func (s Step) String() string {
	switch s {
	case Announce:
		return "announce"
	case Expire:
		return "expire"
	case Archive:
		return "archive"
	default:
		return fmt.Sprintf("step(%d)", uint8(s))
	}
}

// Kept is how long after its instant a finished reminder may be taken away.
const Kept = 30 * 24 * time.Hour

// Reminder is one note.
type Reminder struct {
	Due      mayfly.Instant
	ID       mayfly.ID
	Step     Step
	Attempts uint32 // how often the step has failed
	Reason   string // why it was written
}

const format = 1

// maxReason bounds what is kept of a reason.
const maxReason = 512

// Write adds the reminder to a batch.
func Write(b *store.Batch, r Reminder) {
	value := []byte{format}
	value = binary.AppendUvarint(value, uint64(r.Attempts))
	value = append(value, r.Reason[:min(len(r.Reason), maxReason)]...)
	b.Put(store.Reminders, r.key(), value, r.Due.Add(Kept))
}

// Partition is where the reminders of a shard that are due in a minute lie.
func Partition(minute mayfly.Minute, shard mayfly.Shard) string {
	return string(append(binary.BigEndian.AppendUint32(nil, uint32(minute)), byte(shard)))
}

func (r Reminder) key() store.Key {
	sort := binary.BigEndian.AppendUint64(nil, uint64(r.Due))
	sort = append(sort, r.ID[:]...)
	sort = append(sort, byte(r.Step))
	return store.Key{Partition: Partition(r.Due.Minute(), r.ID.Shard()), Sort: string(sort)}
}

// Read reads a row that Write wrote.
func Read(row store.Row) (Reminder, error) {
	if len(row.Sort) != 8+16+1 || len(row.Value) < 2 || row.Value[0] != format {
		return Reminder{}, mayfly.Errorf(mayfly.Corrupt, "a reminder cannot be read: key %x", row.Sort)
	}
	attempts, n := binary.Uvarint(row.Value[1:])
	if n <= 0 {
		return Reminder{}, mayfly.Errorf(mayfly.Corrupt, "a reminder cannot be read: key %x", row.Sort)
	}
	return Reminder{
		Due:      mayfly.Instant(binary.BigEndian.Uint64([]byte(row.Sort[:8]))),
		ID:       mayfly.ID([]byte(row.Sort[8:24])),
		Step:     Step(row.Sort[24]),
		Attempts: uint32(attempts),
		Reason:   string(row.Value[1+n:]),
	}, nil
}
