package mayfly

import (
	"crypto/sha256"
	"encoding/binary"
)

// UserID names a user in 128 bits (C8). The zero UserID is nobody: an anonymous
// viewer, or the owner of an anonymous paste. Nobody owns nothing.
type UserID [16]byte

// Trace is the ten bits of its owner that an id carries: enough to tell most
// viewers from the author without a lookup, never enough to grant anything.
type Trace uint16

// TraceMax is the largest trace.
const TraceMax Trace = 1<<10 - 1

// UserOf is the user whom an issuer calls subject: the first 128 bits of
// SHA-256 over "mayfly-user", issuer and subject, each behind its length in
// four bytes, so that no two pairs run together.
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

// HomeUserOf is UserOf for the configured home issuer, whose UUID subjects are
// taken as they are.
func HomeUserOf(issuer, subject string) UserID {
	if u, err := ParseUserID(subject); err == nil && !u.IsZero() {
		return u
	}
	return UserOf(issuer, subject)
}

// IsZero says whether u is nobody.
func (u UserID) IsZero() bool { return u == UserID{} }

// Trace is the first ten bits of SHA-256 over the sixteen bytes.
func (u UserID) Trace() Trace {
	sum := sha256.Sum256(u[:])
	return Trace(binary.BigEndian.Uint16(sum[:2]) >> 6)
}

// String is the UUID text.
func (u UserID) String() string { return ID(u).String() }

// ParseUserID reads the canonical UUID text of a user.
func ParseUserID(s string) (UserID, error) {
	if len(s) == 36 {
		if id, ok := parseUUID(s); ok {
			return UserID(id), nil
		}
	}
	return UserID{}, Errorf(Invalid, "%.40q is not a user", s).WithHint("a user is a UUID in lower case, such as " + exampleUser)
}

// MarshalText writes the UUID text.
func (u UserID) MarshalText() ([]byte, error) { return ID(u).appendUUID(nil), nil }

// UnmarshalText reads the UUID text.
func (u *UserID) UnmarshalText(text []byte) error {
	parsed, err := ParseUserID(string(text))
	if err != nil {
		return err
	}
	*u = parsed
	return nil
}

const exampleUser = "5b1e0c3a-7d42-4f19-8c55-0a9be2d6f731"
