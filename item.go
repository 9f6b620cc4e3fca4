package mayfly

import "fmt"

// Generation counts the writes of a row: it is 1 at birth and grows by one with
// every transition. It fences out late workers: a change that was composed from an
// older generation is refused (I10).
type Generation uint32

// Born is the generation of a row at birth.
const Born Generation = 1

// Nonce is a random number that a transition writes into the row. After a time-out
// its author reads the row, and knows by the nonce whether the change happened (L1).
type Nonce uint64

// Run numbers what one process did by one walk in one hour, so that a wrong run can
// be undone (L14).
type Run uint64

// Product is the product that an item belongs to.
type Product uint8

// The products. Their numbers are part of the stored format.
const (
	Story Product = iota + 1
	Entry         // an entry of a highlight
	Paste
	Post
)

// String returns the name of the product, the first half of an event's type.
func (p Product) String() string {
	switch p {
	case Story:
		return "story"
	case Entry:
		return "entry"
	case Paste:
		return "paste"
	case Post:
		return "post"
	default:
		return fmt.Sprintf("product(%d)", uint8(p))
	}
}

// Fate is what happens to an item after its deadline. It is chosen at birth.
type Fate uint8

// The fates.
const (
	Archive Fate = iota + 1 // its media move to cold storage, for its author
	Purge                   // it is deleted and erased
)

// String returns the name of the fate.
func (f Fate) String() string {
	switch f {
	case Archive:
		return "archive"
	case Purge:
		return "purge"
	default:
		return fmt.Sprintf("fate(%d)", uint8(f))
	}
}

// Audience is who may see an item while it serves.
type Audience uint8

// The audiences, from the widest on. The zero Audience permits only the author.
const (
	Everyone Audience = iota + 1
	Followers
	CloseFriends
	OnlyAuthor
)

// String returns the name of the audience in the API.
func (a Audience) String() string {
	switch a {
	case Everyone:
		return "everyone"
	case Followers:
		return "followers"
	case CloseFriends:
		return "close_friends"
	case OnlyAuthor:
		return "only_author"
	default:
		return fmt.Sprintf("audience(%d)", uint8(a))
	}
}

// Keys says which copies of an item's media exist in hot and cold storage: the
// generation that wrote each copy, or zero for none. MediaKey computes the object
// keys from it, so that a row needs eight bytes for them.
type Keys struct {
	Hot, Cold Generation
}

// Stamp names one transition of a row: the generation after it, and its time.
type Stamp struct {
	Generation Generation
	At         Instant
}

// Item is the row of an item in the ledger: what was fixed at birth, and the small
// part that transitions change. Its content is in its Body.
type Item struct {
	ID       ID
	Owner    UserID
	Product  Product
	Fate     Fate
	Audience Audience
	Media    uint8 // the number of its media
	Upload   ID    // the upload that its media came from; zero without media

	State       State
	Generation  Generation
	Nonce       Nonce
	Run         Run
	Cause       Cause
	Changed     Instant // the time of the last transition, or of the birth
	Moved       Stamp   // the last transition that was not only a hold or release; zero as it was born
	Held        bool    // legal hold or take-down (L16)
	Hold        Stamp   // the last transition that set the hold, while it is held; zero if it was born held
	ServesUntil Instant // the end of a restore; 0 if it was never restored (ST11)
	Keys        Keys
}

// Medium describes one media object of an item.
type Medium struct {
	Type   string // detected from the content, never what the uploader claims
	Size   int64
	SHA256 [32]byte
	Width  uint32
	Height uint32
}

// Body is the content of an item. It is written once, at birth, and never changes.
type Body struct {
	Text  string   // a caption, a title or a post
	Media []Medium // Media[n] describes object n
	Data  []byte   // belongs to the product: overlays of a story, settings of a paste
}

// End returns the instant at which the item stops serving: its deadline, or the end
// of a restore if that is later. It is 0 for an item that never expires.
func (item Item) End() Instant { return max(item.ID.Deadline(), item.ServesUntil) }

// EndedAt reports whether the item has stopped serving at now. It depends on the id
// and on ServesUntil only: an early or late sweep changes nothing (I4, I5).
func (item Item) EndedAt(now Instant) bool {
	return item.ID.ExpiredAt(now) && now >= item.ServesUntil
}

// Erasable returns nil if the bytes of the item may be erased: it is deleted and not
// held. Every step that erases checks a row that it has just read (I12, I21).
// Errors: Conflict.
func (item Item) Erasable() error {
	switch {
	case item.State != Deleted:
		return Errorf(Conflict, "%s is %s: only a deleted item is erased", item.ID, item.State)
	case item.Held:
		return Errorf(Conflict, "%s is held: its bytes stay until it is released", item.ID)
	}
	return nil
}

// SweepPending is how the state of an active row past its deadline is shown.
const SweepPending = "sweep_pending"

// Shown returns the state as it is shown to users: SweepPending for an active row
// whose deadline has passed, else the name of the state.
func (item Item) Shown(now Instant) string {
	if item.State == Active && item.EndedAt(now) {
		return SweepPending
	}
	return item.State.String()
}

// Validate returns nil if item is right for a birth. Every driver checks it before it
// writes a row for the first time. Errors: Invalid.
func (item Item) Validate() error {
	bad := func(what string) error { return Errorf(Invalid, "item %s: %s", item.ID, what) }
	switch {
	case !item.ID.Valid():
		return bad("invalid id")
	case item.State != Active || item.Generation != Born || item.Nonce == 0:
		return bad("a birth must be active, of generation 1, with a nonce")
	case item.Product < Story || item.Product > Post:
		return bad("unknown product")
	case item.Fate < Archive || item.Fate > Purge:
		return bad("unknown fate")
	case item.Audience < Everyone || item.Audience > OnlyAuthor:
		return bad("unknown audience")
	case !item.Owner.IsZero() && item.Owner.Trace() != item.ID.Trace():
		return bad("the id has the trace of another owner")
	case item.Moved != Stamp{}, item.Hold != Stamp{}:
		return bad("a birth must not have changed before")
	case item.Held && item.Cause != BySupport, item.ServesUntil != 0:
		return bad("a birth must not be restored, nor held except by support")
	case (item.Media > 0) != (item.Keys.Hot == Born) || (item.Media > 0) == item.Upload.IsZero() || item.Keys.Cold != 0:
		return bad("media must be hot and come from an upload")
	}
	return nil
}
