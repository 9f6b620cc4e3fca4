package paste

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"fmt"

	"golang.org/x/crypto/argon2"

	"github.com/mayflyhq/mayfly"
)

const (
	maxPassword = 128 // bytes
	saltSize    = 16
	hashSize    = 32
	secretSize  = 32

	// The cost of argon2id: 19 MiB and two passes, the first recommendation of OWASP.
	// It is stored with every hash, so that it can be raised later.
	argonMemory  = 19 << 10 // KiB
	argonPasses  = 2
	argonThreads = 1

	passwordSize = 4 + 1 + 1 + saltSize + hashSize
)

// passwordHash is the argon2id hash of a password, with what it was made with.
type passwordHash struct {
	memory          uint32 // KiB
	passes, threads uint8
	salt            [saltSize]byte
	hash            [hashSize]byte
}

func (h passwordHash) append(b []byte) []byte {
	b = append(binary.BigEndian.AppendUint32(b, h.memory), h.passes, h.threads)
	return append(append(b, h.salt[:]...), h.hash[:]...)
}

func readPassword(b []byte) passwordHash {
	h := passwordHash{memory: binary.BigEndian.Uint32(b), passes: b[4], threads: b[5]}
	copy(h.salt[:], b[6:])
	copy(h.hash[:], b[6+saltSize:])
	return h
}

// hash computes the hash of a password with the salt and the cost of h. At most
// maxHashes are computed at once; others wait. Errors: Unavailable (ctx has ended).
func (p *Pastes) hash(ctx context.Context, h passwordHash, password string) ([hashSize]byte, error) {
	if err := p.hashes.Acquire(ctx, 1); err != nil {
		return [hashSize]byte{}, mayfly.Wrap(mayfly.Unavailable, fmt.Errorf("wait for other passwords: %w", err), "try again")
	}
	defer p.hashes.Release(1)
	return [hashSize]byte(argon2.IDKey([]byte(password), h.salt[:], uint32(h.passes), h.memory, h.threads, hashSize)), nil
}

// newPassword hashes the password of a new paste. The salt is random; with an
// idempotency key it is derived from it, so that a retry is the same request.
func (p *Pastes) newPassword(ctx context.Context, d Draft) (h passwordHash, err error) {
	if d.Password == "" {
		return h, nil
	}
	h.memory, h.passes, h.threads = argonMemory, argonPasses, argonThreads
	if d.Key == "" {
		_, err = rand.Read(h.salt[:])
	} else {
		copy(h.salt[:], p.mac("salt", append(d.Author[:], d.Key...)))
	}
	if err == nil {
		h.hash, err = p.hash(ctx, h, d.Password)
	}
	return h, err
}

// unlock checks the password of a paste. Moderators need none. Errors: Locked,
// Unavailable.
func (p *Pastes) unlock(ctx context.Context, paste Paste, viewer mayfly.Viewer, password string) error {
	if !paste.Locked || viewer.Moderator() {
		return nil
	}
	if password == "" {
		return locked(false, paste.Reads)
	}
	if len(password) <= maxPassword {
		hash, err := p.hash(ctx, paste.password, password)
		if err != nil {
			return err
		}
		if subtle.ConstantTimeCompare(hash[:], paste.password.hash[:]) == 1 {
			return nil
		}
	}
	return locked(true, paste.Reads)
}

// mac returns a MAC under the product's secret. Each use has a name, so that a MAC
// for one use is not valid for another.
func (p *Pastes) mac(use string, message []byte) []byte {
	m := hmac.New(sha256.New, p.o.Secret)
	_, _ = fmt.Fprintf(m, "%d:%s:", len(use), use)
	m.Write(message)
	return m.Sum(nil)
}

// DeleteToken returns the token by which the holder can delete the paste. It is
// derived from the id, so that nothing of it is stored.
func (p *Pastes) DeleteToken(id mayfly.ID) string {
	return base64.RawURLEncoding.EncodeToString(p.mac("delete", id[:])[:16])
}

func (p *Pastes) isDeleteToken(id mayfly.ID, token string) bool {
	return token != "" && subtle.ConstantTimeCompare([]byte(token), []byte(p.DeleteToken(id))) == 1
}
