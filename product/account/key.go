package account

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"

	"github.com/mayflyhq/mayfly"
)

// Key is what Mayfly signs with: Ed25519 for tokens, and secrets derived from it
// for what only Mayfly itself reads again. It never prints itself (C7).
type Key struct {
	sign    ed25519.PrivateKey
	passes  []byte // MAC secret of passes for media
	refresh []byte // MAC secret that refresh tokens are made by
	id      string
}

// newKey derives everything from the seed. Each use has a secret of its own, so
// that nothing that was signed for one can be shown to another.
func newKey(seed []byte) (*Key, error) {
	if len(seed) != ed25519.SeedSize {
		return nil, mayfly.Errorf(mayfly.Corrupt, "a seed of %d bytes", len(seed))
	}
	passes, err := hkdf.Key(sha256.New, seed, nil, "mayfly media passes 1", sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("derive the secret of passes: %w", err)
	}
	refresh, err := hkdf.Key(sha256.New, seed, nil, "mayfly refresh tokens 1", sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("derive the secret of refresh tokens: %w", err)
	}
	k := &Key{sign: ed25519.NewKeyFromSeed(seed), passes: passes, refresh: refresh}
	sum := sha256.Sum256(k.Public())
	k.id = base64.RawURLEncoding.EncodeToString(sum[:9])
	return k, nil
}

// Public is the public half: what others check our tokens with.
func (k *Key) Public() ed25519.PublicKey { return k.sign.Public().(ed25519.PublicKey) }

// ID names the key in the header of tokens.
func (k *Key) ID() string { return k.id }

// String hides the key.
func (Key) String() string { return redacted }

// GoString hides the key.
func (Key) GoString() string { return redacted }

// Format hides the key under every verb.
func (Key) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// LogValue hides the key.
func (Key) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText hides the key.
func (Key) MarshalText() ([]byte, error) { return []byte(redacted), nil }
