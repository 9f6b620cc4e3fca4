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
// in the order of Generation; a handler records the EventKey of what it has done,
// so that each effect happens once (I13).
type Event struct {
	ID         ID         // zero in an event about a user
	Generation Generation // of the row after the transition; zero in an event about a user
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

// EventOf returns the event that says what happened to item, in its present state.
func EventOf(item Item, verb Verb) Event {
	return Event{ID: item.ID, Generation: item.Generation, Product: item.Product, Verb: verb, At: item.Changed, Owner: item.Owner}
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

// Type returns the name of the event in the API, such as "story.expired" or "user.deleted".
func (e Event) Type() string {
	if e.AboutUser() {
		return "user." + e.Verb.String()
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
