package mayfly

import "fmt"

// Verb is what happened to an item: the second half of an event's type.
type Verb uint8

// The verbs.
const (
	WasCreated Verb = iota + 1
	WasExpired
	WasArchived
	WasDeleted
	WasRestored
	WasHeld
	WasPurged // nothing of it is cached at the edge any more
)

// String returns the name of the verb, such as "expired".
func (v Verb) String() string {
	switch v {
	case WasCreated:
		return "created"
	case WasExpired:
		return "expired"
	case WasArchived:
		return "archived"
	case WasDeleted:
		return "deleted"
	case WasRestored:
		return "restored"
	case WasHeld:
		return "held"
	case WasPurged:
		return "purged"
	default:
		return fmt.Sprintf("verb(%d)", uint8(v))
	}
}

// Stream is one of the two streams of the log. Births and ends are separate, so
// that many expiries at once never delay readers of births (L8).
type Stream uint8

// The streams.
const (
	Births Stream = iota + 1
	Ends
)

// String returns the name of the stream.
func (s Stream) String() string {
	switch s {
	case Births:
		return "births"
	case Ends:
		return "ends"
	default:
		return fmt.Sprintf("stream(%d)", uint8(s))
	}
}

// Event is one record of the log. It is about an item or, when it has no ID,
// about the user in Owner. Events arrive at least once and, for one item or user,
// in the order of Generation, except purge.done, which may come after later ones; a
// handler records the EventKey of what it has done, so that each effect happens once (I13).
type Event struct {
	ID         ID         // zero in an event about a user
	Generation Generation // of the row after the transition that it is about; zero in an event about a user
	Product    Product    // zero in an event about a user
	Verb       Verb
	At         Instant
	Owner      UserID
}

// EventKey is the idempotency key of an event.
type EventKey struct {
	ID         ID
	User       UserID // of an event about a user; else zero
	Generation Generation
	Product    Product
	Verb       Verb
}

// EventOf returns the event of item's birth, of its hold, or of what last happened to
// it otherwise. It is the same event after later holds and releases: they change
// neither its key nor its time, so that readers recognize a repeat (L8, I13).
func EventOf(item Item, verb Verb) Event {
	var stamp Stamp
	switch verb {
	case WasCreated:
	case WasHeld:
		stamp = item.Hold
	default:
		stamp = item.Moved
	}
	if stamp.Generation == 0 {
		stamp = Stamp{Generation: Born, At: item.ID.Birth()}
	}
	return Event{ID: item.ID, Generation: stamp.Generation, Product: item.Product, Verb: verb, At: stamp.At, Owner: item.Owner}
}

// LastEvent returns the event of the last change of item that was not only a hold or
// release; false if that has none, or is the birth.
func LastEvent(item Item) (Event, bool) {
	verb := WasDeleted
	switch {
	case item.Moved == Stamp{} || item.State == Archiving:
		return Event{}, false
	case item.State == Active:
		verb = WasRestored
	case item.State == ExpiredHot || item.Cause == ByExpiry:
		verb = WasExpired
	case item.State == Cold:
		verb = WasArchived
	}
	return EventOf(item, verb), true
}

// PurgeDone returns the event purge.done: after e, the event of an item's end, the
// edge was asked and has nothing of the item any more (E1). It has the generation and
// the time of e, so that each end has one, however often it is appended.
func PurgeDone(e Event) Event {
	e.Verb = WasPurged
	return e
}

// UserDeleted returns the event user.deleted: the account of user was erased, and
// readers of the log drop what they have derived from it.
func UserDeleted(user UserID, at Instant) Event {
	return Event{Verb: WasDeleted, At: at, Owner: user}
}

// AboutUser reports whether the event is about a user instead of an item.
func (e Event) AboutUser() bool { return e.ID.IsZero() && e.Product == 0 && !e.Owner.IsZero() }

// Key returns the event's idempotency key.
func (e Event) Key() EventKey {
	key := EventKey{ID: e.ID, Generation: e.Generation, Product: e.Product, Verb: e.Verb}
	if e.AboutUser() {
		key.User = e.Owner
	}
	return key
}

// Subject returns the bytes of what the event is about: the id of the item, or the
// user. Drivers choose the partition by it, so that the events of one subject stay
// in order.
func (e Event) Subject() [16]byte {
	if e.AboutUser() {
		return e.Owner
	}
	return e.ID
}

// Shard returns the shard of the event's subject.
func (e Event) Shard() Shard {
	subject := e.Subject()
	return Shard(subject[15] & (Shards - 1))
}

// Type returns the name of the event in the API, such as "story.expired", "user.deleted"
// or "purge.done".
func (e Event) Type() string {
	switch {
	case e.AboutUser():
		return "user." + e.Verb.String()
	case e.Verb == WasPurged:
		return "purge.done"
	}
	return e.Product.String() + "." + e.Verb.String()
}

// Stream returns the stream that the event is appended to.
func (e Event) Stream() Stream {
	if e.Verb == WasCreated {
		return Births
	}
	return Ends
}

// Validate reports whether the event may be appended: an event about an item has
// its id, product and verb; of a user only the deletion is an event.
func (e Event) Validate() error {
	switch {
	case e.AboutUser() && e.Verb == WasDeleted && e.Generation == 0:
	case e.ID.Valid() && e.Verb != 0 && e.Product != 0:
	default:
		return Errorf(Invalid, "event %s of %s is incomplete", e.Type(), e.ID)
	}
	return nil
}
