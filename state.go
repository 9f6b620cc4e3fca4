package mayfly

import "fmt"

// State is how far an item has come in its life (L1). The state sweep_pending, of an
// active item past its deadline, is computed by Item.Shown and never stored.
type State uint8

// The states.
const (
	Active     State = iota + 1 // it serves, or waits for the sweep
	ExpiredHot                  // it is past its deadline and its media are still hot
	Archiving                   // a worker is moving its media to cold storage
	Cold                        // its media are in cold storage only
	Deleted                     // it is a tombstone; no transition leaves this state
)

// String returns the name of the state in the API.
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

// MayBecome reports whether a transition from s to next is allowed (L1). Setting or
// releasing a hold keeps the state and is not decided here.
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

// Cause is what made the last transition of an item, so that a walk that repeats work
// can tell its own transitions from a delete by a user (L4).
type Cause uint8

// The causes. A row that is as it was born has NoCause.
const (
	NoCause     Cause = iota
	ByExpiry          // the sweep, at the deadline
	ByUser            // its author
	ByAccount         // account erasure
	ByRetention       // the end of its time in cold storage
	BySupport         // restore, hold, release
	ByArchive         // a step of the archive
	ByReader          // the last of the readers that its author allowed
)

// String returns the name of the cause.
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
	case ByReader:
		return "reader"
	default:
		return fmt.Sprintf("cause(%d)", uint8(c))
	}
}

// Holding is what a transition does to the hold of an item (L16).
type Holding uint8

// What a transition may do to a hold.
const (
	KeepHold Holding = iota
	SetHold
	ReleaseHold
)

// Change describes one transition: a compare-and-set on state and generation that
// raises the generation and writes a nonce (L1).
type Change struct {
	ID         ID
	From       State
	Generation Generation // the generation that the caller has read
	To         State

	Nonce       Nonce // random and not zero: by it the caller recognizes its own write
	Run         Run   // the run of the walk, for undo (L14)
	Cause       Cause
	At          Instant
	Hold        Holding
	ServesUntil Instant // the end of a restore; else 0
	Keys        *Keys   // the new keys; nil keeps the old ones
}

// Matches reports whether item is still the row that c was composed from.
func (c Change) Matches(item Item) bool {
	return item.ID == c.ID && item.State == c.From && item.Generation == c.Generation
}

// onlyHolds reports whether c sets or releases a hold and keeps the state.
func (c Change) onlyHolds() bool { return c.Hold != KeepHold && c.From == c.To }

// Advance returns the row after c. It alone decides whether a transition is allowed
// (I11). Errors: Conflict, with the row as it was.
func Advance(item Item, c Change) (Item, error) {
	before := item
	if err := c.allowed(item); err != nil {
		return before, err
	}
	item.Generation++
	// A change may be composed before another one that was applied first: Changed
	// never goes back, so that it is not before the deadline of an expired item.
	item.Nonce, item.Changed = c.Nonce, max(item.Changed, c.At)
	stamp := Stamp{Generation: item.Generation, At: item.Changed}
	if !c.onlyHolds() { // a hold keeps the cause that ended the item, and the key of its event
		item.State, item.Run, item.Cause, item.Moved = c.To, c.Run, c.Cause, stamp
	}
	switch c.Hold {
	case SetHold:
		item.Held, item.Hold = true, stamp
	case ReleaseHold:
		item.Held, item.Hold = false, Stamp{}
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
	// A tombstone may be held again or released if it is held already; no other tombstone is held.
	holdOnly := c.onlyHolds() && (item.State != Deleted || item.Held)
	restore := c.To == Active && c.From != Active
	switch {
	case !c.Matches(item):
		return refuse("the row has changed since it was read")
	case c.Nonce == 0:
		return refuse("a transition needs a nonce")
	case !holdOnly && !item.State.MayBecome(c.To):
		return refuse("this transition does not exist")
	case !holdOnly && c.To == ExpiredHot && !item.EndedAt(c.At):
		return refuse("its deadline has not passed") // I5
	case !holdOnly && c.To == Deleted && (c.Cause == ByExpiry || c.Cause == ByRetention) && !item.EndedAt(c.At):
		return refuse("its deadline has not passed and no user deleted it") // L14
	case item.Held && !holdOnly && c.To == Deleted && c.Cause != ByUser:
		return refuse("it is held: only its author may delete it") // I21
	case item.Held && !holdOnly && (c.To == Archiving || c.To == Cold):
		return refuse("it is held: its bytes stay where they are") // I21
	case restore && c.ServesUntil <= c.At:
		return refuse("a restore needs serves_until in the future")
	case !restore && c.ServesUntil != 0:
		return refuse("only a restore sets serves_until")
	}
	return nil
}

// readable checks the keys of a row: an item that is not deleted has at least one
// copy of its media, and a cold item has a cold one (I1, I2).
func (item Item) readable() error {
	if item.State == Deleted || item.Media == 0 {
		return nil
	}
	if item.Keys.Hot == 0 && item.Keys.Cold == 0 || item.State == Cold && item.Keys.Cold == 0 {
		return Errorf(Conflict, "%s: %s: the row would name no copy of its media", item.ID, item.State)
	}
	return nil
}
