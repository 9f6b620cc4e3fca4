package store

import (
	"context"
	"fmt"
	"time"

	"github.com/mayflyhq/mayfly"
)

// KV holds entries that carry their own expiry (K1). It stands beside items: an entry
// has no state and no event of the log, and whether it is served is decided by its
// expiry and now alone, never by whether it was reclaimed (K2). An expired entry is
// absent for every operation, from its millisecond on.
//
// A deleted, replaced or expired version never comes back, also when its expiry was
// later than that of the version that followed it (trap 12). All methods are safe for
// concurrent use.
type KV interface {
	// Get reads entries. It returns one for each key, in order; Found is false for an
	// absent one. It sees every acknowledged write, and of a group all or nothing. It may
	// see a write just before that is durable; KVRead in a group does not. Errors:
	// Invalid, Unsupported (keys of several slots of a cluster; KVCrossSlot), TooLarge (more
	// than MaxAnswer, or more keys than a cluster reads at once), Unavailable.
	Get(ctx context.Context, s KVSpace, now mayfly.Instant, keys ...string) ([]KVEntry, error)

	// Apply applies a group as one: other callers see all of it or nothing, and it is
	// durable on return as the driver's setting promises, also what it only read.
	// Operations are applied in order; one sees the effects of those before it. It
	// returns one result for each. Errors: Conflict (a watched key has changed; nothing was written), Full (the
	// group would take the namespace over its quota, or the free-space floor is
	// reached; nothing was written), Invalid, Unsupported (on a cluster: what
	// CheckCluster refuses, and keys of several slots), TooLarge (more than MaxAnswer, or
	// than a cluster writes as one; nothing was written), Unavailable, Unknown (read the
	// entries back and compare versions).
	Apply(ctx context.Context, s KVSpace, now mayfly.Instant, g KVGroup) ([]KVResult, error)

	// Scan reads at most limit entries whose key begins with prefix, in the driver's
	// order, without their values, after the position after ("" is the beginning). next is
	// the position to go on from, "" at the end. An entry that exists from the first call
	// to the last is returned once; a page may be empty although more follow.
	Scan(ctx context.Context, s KVSpace, now mayfly.Instant, prefix, after string, limit int) (page []KVEntry, next string, err error)

	// Due reads at most limit keys of a space with Events that expired after the
	// position after and not after now, in order of expiry and key; the zero KVDue is the
	// beginning. Each comes once with the expiry at which it died: not if it was replaced
	// or deleted before that, and also if it was written again after it. The driver
	// forgets those older than KVRemembers.
	Due(ctx context.Context, s KVSpace, now mayfly.Instant, after KVDue, limit int) ([]KVDue, error)

	// Drop removes every entry of a space and what the driver knows of it. Durable on
	// return. Idempotent.
	Drop(ctx context.Context, s KVSpace) error

	// Reclaim takes back the space of entries that have expired, without a tombstone
	// for each: one bounded piece of work, so that the caller can pace it. It returns
	// what it did; More says that there is more to do now.
	Reclaim(ctx context.Context, now mayfly.Instant) (KVReclaimed, error)

	// Stats describes a space. It may count entries that have expired and are not yet
	// reclaimed, and be an estimate at most a minute old.
	Stats(ctx context.Context, s KVSpace, now mayfly.Instant) (KVStats, error)

	// Usage describes the whole store.
	Usage(ctx context.Context, now mayfly.Instant) (KVUsage, error)
}

// KVSpace names a namespace and says how it is kept. Every caller passes the same
// values for one Name, except MaxAnswer.
type KVSpace struct {
	Name   string // at most MaxKVSpace bytes; never used again for another namespace
	Quota  int64  // bytes of keys and values; 0 is unlimited
	Events bool   // the driver keeps an index for Due

	// LastWriteWins lets a cluster write without agreement. Groups of such a space have
	// no conditions, watches, updates or answers of old values on a cluster.
	LastWriteWins bool

	// MaxAnswer is how many bytes of values one call of Get or Apply answers with at
	// most; 0 is unlimited. It is of the call, not of the namespace. A call with more is
	// refused with the cause KVLargeAnswer before the driver holds much more than that.
	MaxAnswer int
}

// KVLargeAnswer is the cause of the refusal of a call whose answer has more than
// KVSpace.MaxAnswer bytes of values. Its kind is TooLarge.
type KVLargeAnswer struct {
	Most int
	Size int // of the values that were counted; there may be more
}

// Error implements error.
func (e KVLargeAnswer) Error() string {
	return fmt.Sprintf("the answer has more than %d bytes; ask for fewer keys", e.Most)
}

// CheckAnswer returns an error if values of size bytes are more than MaxAnswer.
func (s *KVSpace) CheckAnswer(size int) error {
	if s.MaxAnswer == 0 || size <= s.MaxAnswer {
		return nil
	}
	return mayfly.Wrap(mayfly.TooLarge, KVLargeAnswer{Most: s.MaxAnswer, Size: size}, "")
}

// Limits of a KV, in bytes.
const (
	MaxKVSpace = 128
	MaxKVKey   = 4 << 10
	MaxKVValue = 16 << 20
	MaxKVGroup = 64 << 20
)

// KVRemembers is how long Due returns a key after it expired, at least.
const KVRemembers = 5 * time.Minute

// KVEntry is an entry, if there is one.
type KVEntry struct {
	Key     string
	Found   bool
	Value   []byte
	Version uint64         // grows with every write of the key, also over a delete
	Expiry  mayfly.Instant // 0 is never
	Written mayfly.Instant // when it was last written or touched
}

// At returns the entry as it is at now: the expired one is absent.
func (e KVEntry) At(now mayfly.Instant) KVEntry {
	if !e.Found || e.Expiry != 0 && e.Expiry <= now {
		return KVEntry{Key: e.Key}
	}
	return e
}

// Size is what an entry takes of its namespace's quota.
func (e KVEntry) Size() int64 { return int64(len(e.Key)) + int64(len(e.Value)) }

// Same reports whether two readings of a key found the same version of it, or nothing.
func (e KVEntry) Same(other KVEntry) bool {
	return e.Found == other.Found && e.Version == other.Version
}

// meta returns the entry without its value.
func (e KVEntry) meta() KVEntry {
	e.Value = nil
	return e
}

// KVGroup is what Apply does as one.
type KVGroup struct {
	// Watch lists entries that must still be as they were read, by Found and Version;
	// else the group is a Conflict.
	Watch []KVEntry
	Ops   []KVOp
}

// KVAction is what an operation does.
type KVAction uint8

// The actions.
const (
	KVRead   KVAction = iota // answers the entry and changes nothing
	KVSet                    // writes Value and Expiry
	KVDelete                 // removes the entry
	KVTouch                  // writes Expiry and keeps the value
	KVUpdate                 // writes what Update makes of the entry, and Expiry
)

// KVCondition is when an operation is done. One that is not done is no error.
type KVCondition uint8

// The conditions. Those of the expiry are of an entry that is present; never is later
// than any instant.
const (
	KVAlways      KVCondition = iota
	KVIfAbsent                // there is no entry
	KVIfPresent               // there is one
	KVIfVersion               // there is one with Version
	KVIfNoExpiry              // there is one that never expires
	KVIfHasExpiry             // there is one that expires
	KVIfLater                 // Expiry is later than that of the entry
	KVIfSooner                // Expiry is sooner than that of the entry
)

// KVOp is one operation of a group. An expiry that is not after now deletes the entry.
type KVOp struct {
	Key        string
	Action     KVAction
	If         KVCondition
	Version    uint64 // of KVIfVersion
	Value      []byte // of KVSet
	Expiry     mayfly.Instant
	KeepExpiry bool // an entry that is present keeps its expiry; Expiry is that of a new one
	Old        bool // the result holds the entry as it was; always so for KVRead

	// Update returns the new value of a KVUpdate from the entry as it is, present or
	// not. It has no effects of its own and may be called several times. If it fails,
	// the operation is not done and its result holds the error.
	Update func(old KVEntry) ([]byte, error)
}

// KVResult is the result of one operation.
type KVResult struct {
	Done bool    // its condition held, and for KVDelete and KVTouch there was an entry
	Old  KVEntry // as it was before, with Value if the operation asked for it; a plain write of a last-write-wins space on a cluster leaves it empty
	New  KVEntry // as it is after; Value only of a KVUpdate that was done
	Err  error   // of Update
}

// KVDue is a key that expired; as a position it is just after it.
type KVDue struct {
	At  mayfly.Instant
	Key string
}

// KVStats describes a namespace.
type KVStats struct {
	Keys  int64
	Bytes int64 // of keys and values
}

// KVUsage describes a store of entries.
type KVUsage struct {
	Disk    int64          // bytes on disk
	Live    int64          // bytes of entries that have not expired
	Expired int64          // bytes of entries that have expired and are not reclaimed
	Oldest  mayfly.Instant // expiry of the oldest of those; 0 if there is none
	Due     mayfly.Instant // since when so much of a namespace has expired that it is to be reclaimed; 0 if none has
	Sync    string         // "always" or "everysec": when a write is durable
}

// KVReclaimed is what one call of Reclaim did.
type KVReclaimed struct {
	Entries int64
	Bytes   int64 // taken back on disk
	Written int64 // bytes rewritten for it
	More    bool
}

// Do decides what an operation makes of an entry that is old at now. If the result is
// Done and the operation is no KVRead, the driver stores next, or deletes the entry if
// next is not found. version is that of next.
func (o *KVOp) Do(old KVEntry, now mayfly.Instant, version uint64) (next KVEntry, r KVResult) {
	r.Old, r.New = old.meta(), old.meta()
	if o.Old || o.Action == KVRead {
		r.Old.Value = old.Value
	}
	if !o.holds(old) || !old.Found && (o.Action == KVDelete || o.Action == KVTouch) {
		return old, r
	}
	next = KVEntry{Key: o.Key, Found: true, Value: o.Value, Version: version, Expiry: o.Expiry, Written: now}
	switch o.Action {
	case KVRead:
		r.Done = true
		return old, r
	case KVDelete:
		next = KVEntry{}
	case KVTouch:
		next.Value = old.Value
	case KVUpdate:
		if next.Value, r.Err = o.Update(old); r.Err == nil && len(next.Value) > MaxKVValue {
			r.Err = mayfly.Errorf(mayfly.Invalid, "the new value has %d bytes, the most is %d", len(next.Value), MaxKVValue)
		}
		if r.Err != nil {
			return old, r
		}
	}
	if o.KeepExpiry && old.Found {
		next.Expiry = old.Expiry
	}
	next.Key = o.Key
	next = next.At(now)
	r.Done, r.New = true, next.meta()
	if o.Action == KVUpdate {
		r.New.Value = next.Value
	}
	return next, r
}

// holds reports whether the condition of the operation holds for an entry.
func (o *KVOp) holds(e KVEntry) bool {
	switch o.If {
	case KVIfAbsent:
		return !e.Found
	case KVIfPresent:
		return e.Found
	case KVIfVersion:
		return e.Found && e.Version == o.Version
	case KVIfNoExpiry:
		return e.Found && e.Expiry == 0
	case KVIfHasExpiry:
		return e.Found && e.Expiry != 0
	case KVIfLater:
		return e.Found && e.Expiry != 0 && (o.Expiry == 0 || o.Expiry > e.Expiry)
	case KVIfSooner:
		return e.Found && o.Expiry != 0 && (e.Expiry == 0 || o.Expiry < e.Expiry)
	default:
		return true
	}
}

// Values returns how many bytes of values the result holds.
func (r *KVResult) Values() int { return len(r.Old.Value) + len(r.New.Value) }

// NeedsValue reports whether the operation answers with the value of the entry as it
// was, or makes the new one from it.
func (o *KVOp) NeedsValue() bool {
	return o.Old || o.Action != KVSet && o.Action != KVDelete
}

// Check returns an error of kind Invalid if the space or one of the keys cannot be stored.
func (s *KVSpace) Check(keys ...string) error {
	if s.Name == "" || len(s.Name) > MaxKVSpace {
		return mayfly.Errorf(mayfly.Invalid, "the name of a namespace has %d bytes; it must have 1 to %d", len(s.Name), MaxKVSpace)
	}
	for _, key := range keys {
		if len(key) > MaxKVKey {
			return mayfly.Errorf(mayfly.Invalid, "the key has %d bytes, the most is %d", len(key), MaxKVKey)
		}
	}
	return nil
}

// Check returns an error of kind Invalid if the group cannot be applied to the space.
func (g *KVGroup) Check(s *KVSpace) error {
	if err := s.Check(); err != nil {
		return err
	}
	size := 0
	for i := range g.Watch {
		if err := s.Check(g.Watch[i].Key); err != nil {
			return err
		}
	}
	for i := range g.Ops {
		o := &g.Ops[i]
		if err := s.Check(o.Key); err != nil {
			return err
		}
		switch {
		case o.Action > KVUpdate || o.If > KVIfSooner:
			return mayfly.Errorf(mayfly.Invalid, "operation %d has the unknown action %d or condition %d", i, o.Action, o.If)
		case o.Action == KVUpdate && o.Update == nil:
			return mayfly.Errorf(mayfly.Invalid, "operation %d updates without a function", i)
		case len(o.Value) > MaxKVValue:
			return mayfly.Errorf(mayfly.Invalid, "the value has %d bytes, the most is %d", len(o.Value), MaxKVValue)
		}
		if size += len(o.Key) + len(o.Value); size > MaxKVGroup {
			return mayfly.Errorf(mayfly.Invalid, "the group has more than %d bytes; send it in parts", MaxKVGroup)
		}
	}
	return nil
}
