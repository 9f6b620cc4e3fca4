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

// familyID identifies a family: the chain of refresh tokens of one login.
type familyID [16]byte

// family is the row of a chain: the hashes of its valid token and of the one before.
type family struct {
	revoked bool
	number  uint64 // of the valid token
	good    [sha256.Size]byte
	before  [sha256.Size]byte
	rotated mayfly.Instant // when before was replaced
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
		return family{}, mayfly.Errorf(mayfly.Corrupt, "family of refresh tokens cannot be read (%d bytes)", len(b))
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

// standing is the status of a refresh token in its family.
type standing uint8

const (
	unknownToken standing = iota // forged, or the family is expired or revoked
	goodToken                    // the valid one
	retriedToken                 // the one before, within the grace period
	reusedToken                  // an old one: it was probably stolen
)

// grace is how long the previous token is accepted after a rotation. A client that
// does not receive the answer has only the old token, and without a grace period its
// retry would revoke its family. A retry gets the same next token, never a second
// one: a thief within the grace period has the same token as the client, and the
// next reuse after the period revokes the family.
const grace = 10 * time.Second

// stands returns the standing of a token. Only a genuine token, one that was really
// issued, counts as reused: a forged token must not revoke a family.
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

// refreshToken is a parsed refresh token.
type refreshToken struct {
	user   mayfly.UserID
	family familyID
	number uint64
	secret [sha256.Size]byte
}

const refreshPrefix = "mfr1"

// refreshOf returns the family's token with that number. It is derived, not random,
// so that a retry gets the same token without storing it. It cannot be derived
// without the key, and the id of a family is random.
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

// hash returns the hash that is stored.
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
