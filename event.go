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

// String is the verb's word.
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

// Stream is one of the log's two streams: births and ends are apart, so that a
// flood of expiries never delays the feed (L8).
type Stream uint8

// The streams.
const (
	Births Stream = iota + 1
	Ends
)

// String is the stream's name.
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

// Event is one line of the log. Events arrive at least once and, per item, in
// the order of Generation; whoever acts on them keeps the EventKey of what is
// done (I13).
type Event struct {
	ID         ID
	Generation Generation // of the row after the transition
	Product    Product
	Verb       Verb
	At         Instant
	Owner      UserID
}

// EventKey is the idempotency key of an event.
type EventKey struct {
	ID         ID
	Generation Generation
	Product    Product
	Verb       Verb
}

// EventOf is the event that says that item, as it now stands, did verb.
func EventOf(item Item, verb Verb) Event {
	return Event{ID: item.ID, Generation: item.Generation, Product: item.Product, Verb: verb, At: item.Changed, Owner: item.Owner}
}

// Key is the event's idempotency key.
func (e Event) Key() EventKey {
	return EventKey{ID: e.ID, Generation: e.Generation, Product: e.Product, Verb: e.Verb}
}

// Type is the event's name on the wire, such as "story.expired".
func (e Event) Type() string { return e.Product.String() + "." + e.Verb.String() }

// Stream is the stream that the event goes to.
func (e Event) Stream() Stream {
	if e.Verb == WasCreated {
		return Births
	}
	return Ends
}
