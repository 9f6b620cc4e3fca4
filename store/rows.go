package store

import (
	"context"
	"fmt"

	"github.com/mayflyhq/mayfly"
)

// Rows holds everything beside items and bodies, in declared tables of
// (partition, sort) → value. Plain tables are written through a Batch; swapped
// tables only through Swap (trap 19).
type Rows interface {
	// Get reads rows of one table. One entry per key, in order; a row that is
	// not there is nil. It sees every acknowledged write. A row whose ReclaimAt
	// has passed may or may not still be there.
	Get(ctx context.Context, t Table, keys ...Key) ([][]byte, error)

	// Range reads rows of one partition in byte order of their clustering key, from
	// From (included) to To (excluded; empty is the end), at most Limit of them;
	// Reverse reads from the end.
	Range(ctx context.Context, t Table, r Range) ([]Row, error)

	// Swap replaces old by new if the row still is old; nil stands for absence on
	// either side. It answers whether it did and, if not, what the row is. The
	// outcome is durable on return. On an error of kind Unknown it may or may not
	// have happened: read the row; a value that only this caller can have written
	// tells. reclaimAt is when the driver may take the space back; 0 is never.
	// Errors: Invalid (a plain table), Unavailable, Unknown.
	Swap(ctx context.Context, t Table, key Key, old, new []byte, reclaimAt mayfly.Instant) (swapped bool, current []byte, err error)
}

// Key names a row. Both parts are bytes, held in strings so that keys compare.
type Key struct {
	Partition  string
	Clustering string
}

// Row is a row as Range reads it.
type Row struct {
	Clustering string
	Value      []byte
}

// Range is a slice of a partition.
type Range struct {
	Partition string
	From, To  string
	Limit     int
	Reverse   bool
}

// MaxPartition and MaxClustering bound the parts of a key, in bytes.
const (
	MaxPartition  = 512
	MaxClustering = 1024
)

// Mode is how a table is written. The two never mix in one table.
type Mode uint8

// The write modes.
const (
	Plain   Mode = iota + 1 // views that hold ids and are judged again at read
	Swapped                 // anything where order matters; compare-and-set only
)

// Erasure is how a user's rows are found when the account is erased (ST14).
type Erasure uint8

// The erasure rules.
const (
	PartitionIsUser Erasure = iota + 1 // the partition begins with the user's 16 bytes
	PartitionIsItem                    // the partition begins with an item's 16 bytes: goes with the item
	NoUser                             // holds nothing about any user
	NamesItems                         // names items by id only: nothing of a user is in it
	Kept                               // outlives the account: the record of what was done, or of the erasure itself
)

// Table is a declared table. Its number is part of the stored format: numbers
// are never reused.
type Table uint8

// The tables.
const (
	// Owners is the index of a user's items: the ring, and later the archive list.
	Owners Table = 1
	// Idempotency remembers what a user's idempotency key was used for.
	Idempotency Table = 2
	// Uploads says which item an upload was published as.
	Uploads Table = 3
	// Restored are the only exceptions to the arithmetic of L2.
	Restored Table = 4
	// Reminders are durable notes to do a step for an item at an instant.
	Reminders Table = 5
	// Leases say which node walks a shard.
	Leases Table = 6
	// Watermarks say how far each walk has come in each shard.
	Watermarks Table = 7
	// Marks are the clocks' persisted marks.
	Marks Table = 8
	// Audit is the append-only, hash-chained record of what support and operators did.
	Audit Table = 9
	// DeadLetters are the steps that were given up after their last try.
	DeadLetters Table = 10
	// Erased are the accounts that were erased: the tombstones that come first.
	Erased Table = 11
	// Runs say what each run of a walk has passed, so that it can be undone.
	Runs Table = 12
	// Relations say who follows whom, who is a close friend, who is blocked.
	Relations Table = 13
	// Related is the other direction: in whose relations a user is named.
	Related Table = 14
	// Families are the chains of refresh tokens.
	Families Table = 15
	// Views say who has seen a story.
	Views Table = 16
	// Seen is the other direction: what a user has seen.
	Seen Table = 17
	// Renditions describe the smaller pictures of an item's media.
	Renditions Table = 18
	// Reservations are uploads whose media arrive one by one.
	Reservations Table = 19
	// DeadEvents are the events that a reader of the log has given up.
	DeadEvents Table = 20
)

// Declaration is what a table is declared to be.
type Declaration struct {
	Name    string
	Purpose string
	Mode    Mode
	Erasure Erasure
}

// Tables lists every declared table.
func Tables() []Table {
	return []Table{
		Owners, Idempotency, Uploads, Restored, Reminders, Leases, Watermarks, Marks, Audit, DeadLetters, Erased, Runs,
		Relations, Related, Families, Views, Seen, Renditions, Reservations, DeadEvents,
	}
}

// Declared is the declaration of t; the zero Declaration for a table that does
// not exist.
func (t Table) Declared() Declaration {
	switch t {
	case Owners:
		return Declaration{"owners", "user → ids of own items, by birth", Plain, PartitionIsUser}
	case Idempotency:
		return Declaration{"idempotency", "user, key → id and hash of the request; 24 h", Swapped, PartitionIsUser}
	case Uploads:
		return Declaration{"uploads", "upload → the item that owns its objects", Plain, PartitionIsItem}
	case Restored:
		return Declaration{"restored", "shard → restored ids with serves_until", Plain, NamesItems}
	case Reminders:
		return Declaration{"reminders", "due minute, shard → steps to do for items", Plain, NamesItems}
	case Leases:
		return Declaration{"leases", "shard, or walker on the roll → holder, until", Swapped, NoUser}
	case Watermarks:
		return Declaration{"watermarks", "walk → shard → durable watermark and run", Swapped, NoUser}
	case Marks:
		return Declaration{"marks", "node → persisted mark of its clock", Swapped, NoUser}
	case Audit:
		return Declaration{"audit", "chain, number → what was done by whom and why", Swapped, Kept}
	case DeadLetters:
		return Declaration{"dead_letters", "shard → item, step: reason, attempts, history", Swapped, NamesItems}
	case Erased:
		return Declaration{"erased", "user → when the account was erased, and how far it has come", Swapped, Kept}
	case Runs:
		return Declaration{"runs", "run → shard → walk, and from where it went", Plain, NoUser}
	case Relations:
		return Declaration{"relations", "user, other → follows, close friend, blocked", Swapped, PartitionIsUser}
	case Related:
		return Declaration{"related", "other, user → that relations name it", Swapped, PartitionIsUser}
	case Families:
		return Declaration{"families", "user, family → the one refresh token that is good", Swapped, PartitionIsUser}
	case Views:
		return Declaration{"views", "story and slice, viewer → when it was seen", Plain, PartitionIsItem}
	case Seen:
		return Declaration{"seen", "viewer, story → when it was seen", Plain, PartitionIsUser}
	case Renditions:
		return Declaration{"renditions", "item, object → type, size, hash", Plain, PartitionIsItem}
	case Reservations:
		return Declaration{"reservations", "user, upload → the media that have arrived", Swapped, PartitionIsUser}
	case DeadEvents:
		return Declaration{"dead_events", "group of readers → event: reason, attempts; 30 days, as the log", Swapped, Kept}
	default:
		return Declaration{}
	}
}

// String is the table's name.
func (t Table) String() string {
	if d := t.Declared(); d.Name != "" {
		return d.Name
	}
	return fmt.Sprintf("table(%d)", uint8(t))
}

// CheckSwap says whether Swap may touch the row: what every driver asks first.
func (t Table) CheckSwap(key Key) error { return t.check(Swapped, key) }

// CheckRead says whether the key or partition may be read.
func (t Table) CheckRead(key Key) error { return t.check(t.Declared().Mode, key) }

func (t Table) check(mode Mode, key Key) error {
	switch {
	case t.Declared().Mode == 0:
		return mayfly.Errorf(mayfly.Invalid, "%s is not a declared table", t)
	case t.Declared().Mode != mode:
		return mayfly.Errorf(mayfly.Invalid, "table %s is not written that way: plain tables by batch, swapped tables by Swap", t)
	case key.Partition == "" || len(key.Partition) > MaxPartition || len(key.Clustering) > MaxClustering:
		return mayfly.Errorf(mayfly.Invalid, "table %s: a key has 1 to %d bytes of partition and at most %d of sort", t, MaxPartition, MaxClustering)
	}
	return nil
}
