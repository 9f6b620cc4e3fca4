// Package remind writes reminders, durable notes to do a step for an item at an
// instant, and does what they ask for when they are due (L15). They are a safety net
// behind deletes, restores, retries and walks that had to go on without an item. A
// step that keeps failing becomes a dead letter (L10).
//
// Reminders are not deleted one by one. Their Walker passes them, reads the row of
// the item again and usually finds nothing left to do; long after that, whole
// minutes are dropped. The package does not know what the steps do.
package remind

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// Step is what a reminder asks for. Its number is part of the stored format.
type Step uint8

// The steps.
const (
	Announce Step = iota + 1 // append the event of a birth
	Expire                   // expire it, as the sweep does at the deadline
	Archive                  // move its media to cold storage
	Erase                    // erase the bytes of what is deleted
	Tidy                     // remove its tombstone
	Retire                   // delete it after its time in cold storage
	Count                    // store the final count of its views
	Burn                     // delete a paste whose reads are used up
)

// Steps returns all steps.
func Steps() []Step { return []Step{Announce, Expire, Archive, Erase, Tidy, Retire, Count, Burn} }

// String returns the name of the step.
func (s Step) String() string {
	switch s {
	case Announce:
		return "announce"
	case Expire:
		return "expire"
	case Archive:
		return "archive"
	case Erase:
		return "erase"
	case Tidy:
		return "tidy"
	case Retire:
		return "retire"
	case Count:
		return "count"
	case Burn:
		return "burn"
	default:
		return fmt.Sprintf("step(%d)", uint8(s))
	}
}

// ParseStep returns the step with that name. Errors: Invalid.
func ParseStep(word string) (Step, error) {
	for _, s := range Steps() {
		if s.String() == word {
			return s, nil
		}
	}
	return 0, mayfly.Errorf(mayfly.Invalid, "unknown step %.40q: use one of %v", word, Steps())
}

// Kept is how long finished reminders are kept behind the watermark.
const Kept = 30 * 24 * time.Hour

// Tombstones says how long the row of a deleted item stays, and which deletions
// need a reminder to remove it: the tidy walk finds the others (L13).
type Tombstones struct {
	Kept  time.Duration // how long past its deadline and its deletion a row stays; default mayfly.DefaultTombstone
	Slack time.Duration // how long after its deadline an item may be deleted for the tidy walk to find it; default 1 day
}

// WithDefaults returns t with defaults for what is zero. Errors: Invalid.
func (t Tombstones) WithDefaults() (Tombstones, error) {
	t = Tombstones{Kept: cmp.Or(t.Kept, mayfly.DefaultTombstone), Slack: cmp.Or(t.Slack, 24*time.Hour)}
	if t.Kept < 0 || t.Slack < 0 {
		return t, mayfly.Errorf(mayfly.Invalid, "tombstones kept for %s with a slack of %s: use positive durations", t.Kept, t.Slack)
	}
	return t, nil
}

// Due returns when the tombstone of an item that was last changed at changed may
// be removed by a reminder: after the tidy walk would have removed it.
func (t Tombstones) Due(changed mayfly.Instant) mayfly.Instant { return changed.Add(t.Kept + t.Slack) }

// Reminder is a note to do a step for an item at an instant.
type Reminder struct {
	Due     mayfly.Instant
	ID      mayfly.ID
	Step    Step
	Reason  string // why it was written
	Tries   uint32 // how often the step has failed
	History []Try  // the last of them, oldest first
	// Waits is since when it has been put off, because what its step needs is
	// unavailable or because the retry budget was spent; 0 if it is not.
	Waits mayfly.Instant
	// Span is what it stands for if it is not for ID alone.
	Span Span
}

// Span names reminders of one minute and one step that were put off together. They
// stay where they are, and one reminder stands for all of them: an outage costs a
// row per page and not one per item.
type Span struct {
	Minute   mayfly.Minute // 0: no span
	From, To string        // clustering keys, both included
	Retries  bool          // only those that have failed before
}

// Try is a try that failed.
type Try struct {
	At     mayfly.Instant
	Reason string
}

const (
	format     = 1
	waiting    = 2   // the format of a reminder with Waits, which comes first
	spanning   = 3   // the format of a reminder with Waits and Span
	maxReason  = 256 // bytes kept of a reason
	maxHistory = 8   // tries kept
)

// Write adds the reminder to a batch. It has no time to live, because a store cannot
// know whether it is finished (L13).
func Write(b *store.Batch, r Reminder) {
	value := []byte{format}
	if r.Waits != 0 {
		value = binary.BigEndian.AppendUint64([]byte{waiting}, uint64(r.Waits))
	}
	if r.Span.Minute != 0 {
		value = r.Span.append(binary.BigEndian.AppendUint64([]byte{spanning}, uint64(r.Waits)))
	}
	b.Put(Reminders, r.key(), appendNote(value, r.Reason, r.Tries, r.History), 0)
}

const spanSize = 4 + 1 + 2*sortSize

func (s Span) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(s.Minute))
	retries := byte(0)
	if s.Retries {
		retries = 1
	}
	return append(append(append(b, retries), s.From...), s.To...)
}

func readSpan(b []byte) Span {
	return Span{
		Minute: mayfly.Minute(binary.BigEndian.Uint32(b)), Retries: b[4] == 1,
		From: string(b[5 : 5+sortSize]), To: string(b[5+sortSize : spanSize]),
	}
}

// failed returns the reminder after one more failed try.
func (r Reminder) failed(at mayfly.Instant, why error) Reminder {
	r.Tries++
	r.Waits = 0
	history := append(append([]Try(nil), r.History...), Try{At: at, Reason: why.Error()})
	r.History = history[max(0, len(history)-maxHistory):]
	return r
}

// Partition returns the partition of the reminders of a shard that are due in a minute.
func Partition(minute mayfly.Minute, shard mayfly.Shard) string {
	return string(append(binary.BigEndian.AppendUint32(nil, uint32(minute)), byte(shard)))
}

const sortSize = 8 + 16 + 1

func (r Reminder) key() store.Key {
	sort := binary.BigEndian.AppendUint64(nil, uint64(r.Due))
	sort = append(sort, r.ID[:]...)
	sort = append(sort, byte(r.Step))
	return store.Key{Partition: Partition(r.Due.Minute(), r.ID.Shard()), Clustering: string(sort)}
}

// Read decodes a row that Write wrote. If only the value cannot be read, what the key
// holds is returned with the error. Errors: Corrupt.
func Read(row store.Row) (Reminder, error) {
	if len(row.Clustering) != sortSize {
		return Reminder{}, mayfly.Errorf(mayfly.Corrupt, "reminder with key %x has an unknown format", row.Clustering)
	}
	r := Reminder{
		Due:  mayfly.Instant(binary.BigEndian.Uint64([]byte(row.Clustering[:8]))),
		ID:   mayfly.ID([]byte(row.Clustering[8:24])),
		Step: Step(row.Clustering[24]),
	}
	var note []byte
	switch v := row.Value; {
	case len(v) > 0 && v[0] == format:
		note = v[1:]
	case len(v) > 9 && v[0] == waiting:
		r.Waits, note = mayfly.Instant(binary.BigEndian.Uint64(v[1:])), v[9:]
	case len(v) > 9+spanSize && v[0] == spanning:
		r.Waits, r.Span, note = mayfly.Instant(binary.BigEndian.Uint64(v[1:])), readSpan(v[9:]), v[9+spanSize:]
	default:
		return r, mayfly.Errorf(mayfly.Corrupt, "reminder for %s has an unknown format", r.ID)
	}
	var err error
	if r.Reason, r.Tries, r.History, err = readNote(note); err != nil {
		return r, fmt.Errorf("reminder for %s: %w", r.ID, err)
	}
	return r, nil
}

// appendNote encodes what reminders and dead letters have in common.
func appendNote(b []byte, reason string, tries uint32, history []Try) []byte {
	text := func(b []byte, s string) []byte {
		s = s[:min(len(s), maxReason)]
		return append(binary.AppendUvarint(b, uint64(len(s))), s...)
	}
	b = binary.AppendUvarint(text(b, reason), uint64(tries))
	history = history[max(0, len(history)-maxHistory):]
	b = binary.AppendUvarint(b, uint64(len(history)))
	for _, t := range history {
		b = text(binary.BigEndian.AppendUint64(b, uint64(t.At)), t.Reason)
	}
	return b
}

func readNote(b []byte) (reason string, tries uint32, history []Try, err error) {
	bad := mayfly.Errorf(mayfly.Corrupt, "reason and history cannot be decoded")
	number := func() uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			err, b = bad, nil
			return 0
		}
		b = b[n:]
		return v
	}
	text := func() string {
		n := number()
		if n > uint64(len(b)) {
			err, b = bad, nil
			return ""
		}
		s := string(b[:n])
		b = b[n:]
		return s
	}
	reason = text()
	tries = uint32(number())
	count := number()
	if count > maxHistory {
		return "", 0, nil, bad
	}
	for range count {
		if len(b) < 8 {
			return "", 0, nil, bad
		}
		at := mayfly.Instant(binary.BigEndian.Uint64(b))
		b = b[8:]
		history = append(history, Try{At: at, Reason: text()})
	}
	if err == nil && len(b) > 0 {
		err = bad
	}
	return reason, tries, history, err
}
