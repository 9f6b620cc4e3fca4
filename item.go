package mayfly

import "fmt"

// Generation counts the writes of a row: 1 at birth, one more with every
// transition. It is the fence: a change composed from an older generation is
// refused (I10).
type Generation uint32

// Born is the generation of a row at birth.
const Born Generation = 1

// Nonce marks a write: an outcome that timed out is mine only if the row shows
// my nonce (L1).
type Nonce uint64

// Run names one tenure of a walk, so that a wrong one can be undone (L14).
type Run uint64

// Product says which product an item belongs to.
type Product uint8

// The sorts of item.
const (
	Story Product = iota + 1
	Entry         // of a highlight
	Paste
	Post
)

// String is the sort's word, the first half of an event's type.
func (s Product) String() string {
	switch s {
	case Story:
		return "story"
	case Entry:
		return "entry"
	case Paste:
		return "paste"
	case Post:
		return "post"
	default:
		return fmt.Sprintf("sort(%d)", uint8(s))
	}
}

// Fate is what expiry does, chosen at birth.
type Fate uint8

// The fates.
const (
	Archive Fate = iota + 1 // to cold storage, for its author
	Purge                   // erased
)

// String is the fate's word.
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

// Audience says who may see an item while it serves.
type Audience uint8

// The audiences, from the widest. The zero Audience permits nobody but the author.
const (
	Everyone Audience = iota + 1
	Followers
	CloseFriends
	OnlyAuthor
)

// String is the audience's word on the wire.
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

// Keys names the copies of an item's media by the generation that wrote them;
// zero is no copy. The object keys follow from it (MediaKey), so that the row
// names its keys in eight bytes.
type Keys struct {
	Hot, Cold Generation
}

// Item is the row of an item: what was fixed at birth, and the small part that
// transitions change. The content is in its Body.
type Item struct {
	ID       ID
	Owner    UserID
	Product  Product
	Fate     Fate
	Audience Audience
	Media    uint8 // how many media objects it has
	Upload   ID    // under which its media were born; zero without media

	State       State
	Generation  Generation
	Nonce       Nonce
	Run         Run
	Cause       Cause
	Changed     Instant // when the last transition, or the birth, was written
	Held        bool    // legal hold or take-down (L16)
	ServesUntil Instant // after a restore: until when it serves; else 0 (ST11)
	Keys        Keys
}

// Medium describes one media object of an item.
type Medium struct {
	Type   string // by content, never by what the uploader said
	Size   int64
	SHA256 [32]byte
	Width  uint32
	Height uint32
}

// Body is the immutable content of an item: written once at birth, always
// cacheable.
type Body struct {
	Text  string   // caption, title or post
	Media []Medium // in order; Media[n] is object n
	Data  []byte   // the product's own: overlays of a story, settings of a paste
}

// End is the instant at which the item stops serving: its deadline, or after a
// restore serves_until. It is 0 for an item that never expires.
func (item Item) End() Instant { return max(item.ID.Deadline(), item.ServesUntil) }

// EndedAt says whether the item has stopped serving. It is arithmetic on the id
// and serves_until only: a sweep that is early or late changes nothing (I4, I5).
func (item Item) EndedAt(now Instant) bool {
	return item.ID.ExpiredAt(now) && now >= item.ServesUntil
}

// Erasable says whether bytes of the item may be erased for good: it is deleted,
// and nobody holds it (I12, I21). Every eraser asks it of a row just read.
func (item Item) Erasable() error {
	switch {
	case item.State != Deleted:
		return Errorf(Conflict, "%s is %s: only what is deleted is erased", item.ID, item.State)
	case item.Held:
		return Errorf(Conflict, "%s is held: its bytes stay until it is released", item.ID)
	}
	return nil
}

// SweepPending is the word for an active row past its deadline.
const SweepPending = "sweep_pending"

// Shown is the state as people see it: sweep_pending for an active row whose
// deadline has passed.
func (item Item) Shown(now Instant) string {
	if item.State == Active && item.EndedAt(now) {
		return SweepPending
	}
	return item.State.String()
}

// Validate says whether item could be a birth: what every driver checks before
// it writes a row for the first time.
func (item Item) Validate() error {
	bad := func(what string) error { return Errorf(Invalid, "item %s: %s", item.ID, what) }
	switch {
	case !item.ID.Valid():
		return bad("not an id")
	case item.State != Active || item.Generation != Born || item.Nonce == 0:
		return bad("a birth is active, of generation 1 and has a nonce")
	case item.Product < Story || item.Product > Post:
		return bad("no such sort")
	case item.Fate < Archive || item.Fate > Purge:
		return bad("no such fate")
	case item.Audience < Everyone || item.Audience > OnlyAuthor:
		return bad("no such audience")
	case !item.Owner.IsZero() && item.Owner.Trace() != item.ID.Trace():
		return bad("the id carries the trace of another owner")
	case item.Held && item.Cause != BySupport, item.ServesUntil != 0:
		return bad("a birth is neither held without support's word nor restored")
	case (item.Media > 0) != (item.Keys.Hot == Born) || (item.Media > 0) == item.Upload.IsZero() || item.Keys.Cold != 0:
		return bad("media are born hot, under an upload")
	}
	return nil
}
