package mayfly

import "fmt"

// State is where an item is in its life (L1). What an active item past its
// deadline is called, sweep_pending, is derived (Item.Shown) and never written.
type State uint8

// The states.
const (
	Active     State = iota + 1 // serving, or waiting for the sweep
	ExpiredHot                  // past its deadline, media still hot
	Archiving                   // claimed by an archive worker
	Cold                        // archived, verified, hot erased
	Deleted                     // a tombstone; nothing leads out of it
)

// String is the state's word on the wire.
func (s State) String() string {
	switch s {
	case Active:
		return "active"
	case ExpiredHot:
		return "expired_hot"
	case Archiving:
		return "archiving"
	case Cold:
		return "cold"
	case Deleted:
		return "deleted"
	default:
		return fmt.Sprintf("state(%d)", uint8(s))
	}
}

// MayBecome is the transition table of L1. A change of hold keeps the state and
// is not an edge of it.
func (s State) MayBecome(next State) bool {
	switch s {
	case Active:
		return next == ExpiredHot || next == Deleted
	case ExpiredHot:
		return next == Archiving || next == Active || next == Deleted
	case Archiving:
		return next == Archiving || next == Cold || next == Active || next == Deleted
	case Cold:
		return next == Active || next == Deleted
	default:
		return false
	}
}

// Cause says who or what ended an item, so that a second pass can tell its own
// work from somebody's delete (L4).
type Cause uint8

// The causes. A row that nothing has ended has none.
const (
	NoCause     Cause = iota
	ByExpiry          // the sweep, at the deadline
	ByUser            // its author
	ByAccount         // account erasure
	ByRetention       // the end of its cold years
	BySupport         // restore, hold, release
	ByArchive         // the archive's own steps
)

// String is the cause's word.
func (c Cause) String() string {
	switch c {
	case NoCause:
		return "none"
	case ByExpiry:
		return "expiry"
	case ByUser:
		return "user"
	case ByAccount:
		return "account"
	case ByRetention:
		return "retention"
	case BySupport:
		return "support"
	case ByArchive:
		return "archive"
	default:
		return fmt.Sprintf("cause(%d)", uint8(c))
	}
}

// Holding is what a change does to the hold of an item (L16).
type Holding uint8

// What a change may do to a hold.
const (
	KeepHold Holding = iota
	SetHold
	ReleaseHold
)

// Change asks for one transition: a compare-and-set on (state, generation) that
// raises the generation and writes a nonce (L1).
type Change struct {
	ID         ID
	From       State
	Generation Generation // the generation that the caller has seen
	To         State

	Nonce       Nonce // chosen by the caller, never zero: tells its write from another's
	Run         Run   // the walk's run, for undo (L14)
	Cause       Cause
	At          Instant
	Hold        Holding
	ServesUntil Instant // with a restore: until when it serves again
	Keys        *Keys   // the new keys; nil leaves them
}

// Matches says whether the row is still the one that c was composed from.
func (c Change) Matches(item Item) bool {
	return item.ID == c.ID && item.State == c.From && item.Generation == c.Generation
}

// onlyHolds says that c sets or releases a hold and leaves the state.
func (c Change) onlyHolds() bool { return c.Hold != KeepHold && c.From == c.To }

// Advance is the row after c. It is the one place that decides whether a
// transition is allowed (I11); the caller has checked that c Matches. A change
// that is refused is a Conflict and changes nothing.
func Advance(item Item, c Change) (Item, error) {
	before := item
	if err := c.allowed(item); err != nil {
		return before, err
	}
	if !c.onlyHolds() { // a hold leaves the record of what ended the item
		item.State, item.Run, item.Cause = c.To, c.Run, c.Cause
	}
	item.Generation++
	item.Nonce, item.Changed = c.Nonce, c.At
	switch c.Hold {
	case SetHold:
		item.Held = true
	case ReleaseHold:
		item.Held = false
	}
	if c.ServesUntil != 0 {
		item.ServesUntil = c.ServesUntil
	}
	if c.Keys != nil {
		item.Keys = *c.Keys
	}
	if err := item.readable(); err != nil {
		return before, err
	}
	return item, nil
}

func (c Change) allowed(item Item) error {
	refuse := func(why string) error {
		return Errorf(Conflict, "%s: %s → %s: %s", item.ID, item.State, c.To, why)
	}
	// A tombstone that is held stays held or is released, so that its bytes may go; no other is held.
	holdOnly := c.onlyHolds() && (item.State != Deleted || item.Held)
	restore := c.To == Active && c.From != Active
	switch {
	case !c.Matches(item):
		return refuse("the row has changed since it was read")
	case c.Nonce == 0:
		return refuse("a transition needs a nonce")
	case !holdOnly && !item.State.MayBecome(c.To):
		return refuse("not an edge of the life of an item")
	case !holdOnly && c.To == ExpiredHot && !item.EndedAt(c.At):
		return refuse("its deadline has not passed") // I5
	case !holdOnly && c.To == Deleted && (c.Cause == ByExpiry || c.Cause == ByRetention) && !item.EndedAt(c.At):
		return refuse("its deadline has not passed, and nobody deleted it") // L14
	case item.Held && !holdOnly && c.To == Deleted && c.Cause != ByUser:
		return refuse("it is held: nothing scheduled ends it") // I21
	case item.Held && !holdOnly && (c.To == Archiving || c.To == Cold):
		return refuse("it is held: its bytes stay where they are") // I21
	case restore && c.ServesUntil <= c.At:
		return refuse("a restore says until when it serves")
	case !restore && c.ServesUntil != 0:
		return refuse("only a restore sets serves_until")
	}
	return nil
}

// readable asserts I1 and I2 on the keys of a row: an item that is not deleted
// names at least one copy, and cold means that the cold copy is named.
func (item Item) readable() error {
	if item.State == Deleted || item.Media == 0 {
		return nil
	}
	if item.Keys.Hot == 0 && item.Keys.Cold == 0 || item.State == Cold && item.Keys.Cold == 0 {
		return Errorf(Conflict, "%s: %s: the row would name no copy of its media", item.ID, item.State)
	}
	return nil
}
