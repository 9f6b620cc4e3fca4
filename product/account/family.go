package account

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strings"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// familyID names a chain of refresh tokens of one user.
type familyID [16]byte

// family is the row of a chain: which token is good now, and which was before.
// Of tokens it holds hashes only.
type family struct {
	revoked bool
	number  uint64 // of the token that is good
	good    [sha256.Size]byte
	before  [sha256.Size]byte
	rotated mayfly.Instant // when before stopped being the one
	until   mayfly.Instant
	subject string
}

const (
	familyFormat = 1
	familyFixed  = 1 + 1 + 8 + 2*sha256.Size + 8 + 8
)

func (f family) bytes() []byte {
	b := []byte{familyFormat, 0}
	if f.revoked {
		b[1] = 1
	}
	b = binary.BigEndian.AppendUint64(b, f.number)
	b = append(b, f.good[:]...)
	b = append(b, f.before[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(f.rotated))
	b = binary.BigEndian.AppendUint64(b, uint64(f.until))
	return append(b, f.subject...)
}

func readFamily(b []byte) (family, error) {
	if len(b) < familyFixed || b[0] != familyFormat || b[1] > 1 {
		return family{}, mayfly.Errorf(mayfly.Corrupt, "a family of refresh tokens cannot be read (%d bytes)", len(b))
	}
	f := family{revoked: b[1] == 1, number: binary.BigEndian.Uint64(b[2:])}
	b = b[10:]
	copy(f.good[:], b)
	copy(f.before[:], b[sha256.Size:])
	b = b[2*sha256.Size:]
	f.rotated, f.until = mayfly.Instant(binary.BigEndian.Uint64(b)), mayfly.Instant(binary.BigEndian.Uint64(b[8:]))
	f.subject = string(b[16:])
	return f, nil
}

func familyKey(user mayfly.UserID, id familyID) store.Key {
	return store.Key{Partition: string(user[:]), Clustering: string(id[:])}
}

// standing is how a refresh token stands in its family.
type standing uint8

const (
	unknownToken standing = iota // made up, or the family is over or revoked
	goodToken                    // the one that is good
	retriedToken                 // the one before, within the grace
	reusedToken                  // an old one: somebody else has it too
)

// grace is how long the token before is taken again. Whoever rotates and loses
// the answer on the way has nothing but the old token; without a grace the retry
// would end the family of an honest client on a bad line. It is answered with
// the same next token, never with a second one: a thief who is that quick holds
// what the client holds, and the first of the two that comes late ends it.
const grace = 10 * time.Second

// stands judges a token of the family. Only one that was really given out, as
// genuine says, counts as an old one that comes again: who makes tokens up ends
// nobody's family.
func (f family) stands(t refreshToken, genuine bool, now mayfly.Instant) standing {
	hash := t.hash()
	switch {
	case f.revoked || now >= f.until:
		return unknownToken
	case hmac.Equal(hash[:], f.good[:]):
		return goodToken
	case hmac.Equal(hash[:], f.before[:]) && now < f.rotated.Add(grace):
		return retriedToken
	case genuine && t.number < f.number:
		return reusedToken
	default:
		return unknownToken
	}
}

// refreshToken is a refresh token taken apart.
type refreshToken struct {
	user   mayfly.UserID
	family familyID
	number uint64
	secret [sha256.Size]byte
}

const refreshPrefix = "mfr1"

// refreshOf is the family's token of a number. It is made, not drawn, so that
// the answer to a retry is the same and need not be kept; nobody without the key
// can make it, and a family's id is random.
func (k *Key) refreshOf(user mayfly.UserID, id familyID, number uint64) refreshToken {
	mac := hmac.New(sha256.New, k.refresh)
	mac.Write(user[:])
	mac.Write(id[:])
	mac.Write(binary.BigEndian.AppendUint64(nil, number))
	return refreshToken{user: user, family: id, number: number, secret: [sha256.Size]byte(mac.Sum(nil))}
}

func (t refreshToken) token() Token {
	secret := append(binary.BigEndian.AppendUint64(nil, t.number), t.secret[:]...)
	parts := []string{refreshPrefix}
	for _, b := range [][]byte{t.user[:], t.family[:], secret} {
		parts = append(parts, base64.RawURLEncoding.EncodeToString(b))
	}
	return Token(strings.Join(parts, "."))
}

// hash is what the row keeps of the token.
func (t refreshToken) hash() [sha256.Size]byte { return sha256.Sum256(t.secret[:]) }

func readRefresh(text string) (refreshToken, bool) {
	parts := strings.Split(text, ".")
	if len(text) > 256 || len(parts) != 4 || parts[0] != refreshPrefix {
		return refreshToken{}, false
	}
	var t refreshToken
	secret := make([]byte, 8+len(t.secret))
	for i, into := range [][]byte{t.user[:], t.family[:], secret} {
		b, err := base64.RawURLEncoding.Strict().DecodeString(parts[i+1])
		if err != nil || len(b) != len(into) {
			return refreshToken{}, false
		}
		copy(into, b)
	}
	t.number = binary.BigEndian.Uint64(secret)
	copy(t.secret[:], secret[8:])
	return t, !t.user.IsZero()
}
