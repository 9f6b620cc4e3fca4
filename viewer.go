package mayfly

import (
	"crypto/sha256"
	"encoding/binary"
)

// Viewer is the caller who wants to see an item. The zero Viewer is anonymous. A
// service that acts for a user is that user. An administrator is anonymous too: the
// scope admin alone shows no content (C2).
type Viewer struct {
	user      UserID
	trace     Trace
	moderator bool
}

// ViewerOf returns the viewer for user. It computes the trace once, so that deciding
// about an item needs no hash.
func ViewerOf(user UserID) Viewer { return Viewer{user: user, trace: user.Trace()} }

// ModeratorOf returns the viewer for user as a moderator.
func ModeratorOf(user UserID) Viewer {
	v := ViewerOf(user)
	v.moderator = true
	return v
}

// User returns the user; zero if the viewer is anonymous.
func (v Viewer) User() UserID { return v.user }

// Moderator reports whether the viewer is a moderator.
func (v Viewer) Moderator() bool { return v.moderator }

// Wrote reports whether the viewer is the author of item. An anonymous item has no
// author.
func (v Viewer) Wrote(item Item) bool { return !v.user.IsZero() && v.user == item.Owner }

// MayHaveWritten reports by the id alone whether the viewer can be the author: false
// is certain, and true is wrong for one in 1,024 other viewers.
func (v Viewer) MayHaveWritten(id ID) bool { return !v.user.IsZero() && v.trace == id.Trace() }

// Relation is what a viewer is to the owner of an item, and what the viewer wants of
// the owner: a set of flags.
type Relation uint8

// The flags of a Relation.
const (
	Follower     Relation = 1 << iota // the viewer follows the owner
	CloseFriend                       // the owner made the viewer a close friend
	Blocked                           // the owner blocks the viewer
	Private                           // the owner's account is private: everyone is followers
	Blocks                            // the viewer blocks the owner
	MutesPosts                        // the viewer wants no posts of the owner in lists
	MutesReposts                      // the viewer wants no reposts by the owner in lists
)

// Has reports whether r includes all flags of other.
func (r Relation) Has(other Relation) bool { return r&other == other }

// UserID identifies a user by 128 bits (C8). The zero UserID is an anonymous viewer,
// or the owner of an anonymous paste.
type UserID [16]byte

// Trace is ten bits of a hash of the owner, which are part of an id. They tell most
// viewers from the author without a lookup, and never grant anything.
type Trace uint16

// TraceMax is the largest trace.
const TraceMax Trace = 1<<10 - 1

// UserOf returns the user with that subject of an issuer: the first 128 bits of
// SHA-256 over "mayfly-user", issuer and subject. The length of each precedes it in
// four bytes, so that different pairs never give the same input.
func UserOf(issuer, subject string) UserID {
	h := sha256.New()
	for _, part := range []string{"mayfly-user", issuer, subject} {
		var length [4]byte
		binary.BigEndian.PutUint32(length[:], uint32(len(part)))
		h.Write(length[:])
		h.Write([]byte(part))
	}
	return UserID(h.Sum(nil)[:16])
}

// HomeUserOf is like UserOf, for the configured home issuer: a subject that is a UUID
// is the user id itself.
func HomeUserOf(issuer, subject string) UserID {
	if u, err := ParseUserID(subject); err == nil && !u.IsZero() {
		return u
	}
	return UserOf(issuer, subject)
}

// IsZero reports whether u is the zero UserID.
func (u UserID) IsZero() bool { return u == UserID{} }

// Trace returns the first ten bits of SHA-256 over the sixteen bytes.
func (u UserID) Trace() Trace {
	sum := sha256.Sum256(u[:])
	return Trace(binary.BigEndian.Uint16(sum[:2]) >> 6)
}

// String returns the UUID text.
func (u UserID) String() string { return ID(u).String() }

// ParseUserID parses the canonical UUID text of a user. Errors: Invalid.
func ParseUserID(s string) (UserID, error) {
	if len(s) == 36 {
		if id, ok := parseUUID(s); ok {
			return UserID(id), nil
		}
	}
	return UserID{}, Errorf(Invalid, "%.40q is not a user id", s).WithHint("a user id is a UUID in lower case, such as " + exampleUser)
}

// MarshalText returns the UUID text.
func (u UserID) MarshalText() ([]byte, error) { return ID(u).MarshalText() }

// AppendText appends the UUID text.
func (u UserID) AppendText(b []byte) ([]byte, error) { return ID(u).AppendText(b) }

// UnmarshalText parses the UUID text.
func (u *UserID) UnmarshalText(text []byte) error {
	parsed, err := ParseUserID(string(text))
	if err != nil {
		return err
	}
	*u = parsed
	return nil
}

const exampleUser = "5b1e0c3a-7d42-4f19-8c55-0a9be2d6f731"
