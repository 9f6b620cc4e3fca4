package account

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/mayflyhq/mayfly"
)

// Key signs tokens with Ed25519, and has secrets derived from the same seed for
// what only Mayfly itself reads again. Its methods never print it (C7).
type Key struct {
	sign    ed25519.PrivateKey
	passes  *sync.Pool // of MACs with the secret of passes for media; making one costs more than using it
	refresh []byte     // MAC secret of refresh tokens
	derive  []byte     // what secrets of products are derived from
	id      string
}

// newKey derives all secrets from the seed. Each use has its own secret, so that a
// signature for one use is not valid for another.
func newKey(seed []byte) (*Key, error) {
	if len(seed) != ed25519.SeedSize {
		return nil, mayfly.Errorf(mayfly.Corrupt, "seed has %d bytes", len(seed))
	}
	passes, err := hkdf.Key(sha256.New, seed, nil, "mayfly media passes 1", sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("derive the secret of passes: %w", err)
	}
	refresh, err := hkdf.Key(sha256.New, seed, nil, "mayfly refresh tokens 1", sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("derive the secret of refresh tokens: %w", err)
	}
	derive, err := hkdf.Key(sha256.New, seed, nil, "mayfly products 1", sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("derive the secret of products: %w", err)
	}
	k := &Key{sign: ed25519.NewKeyFromSeed(seed), refresh: refresh, derive: derive}
	k.passes = &sync.Pool{New: func() any { return hmac.New(sha256.New, passes) }}
	sum := sha256.Sum256(k.Public())
	k.id = base64.RawURLEncoding.EncodeToString(sum[:9])
	return k, nil
}

// Public returns the public key, which verifies our tokens.
func (k *Key) Public() ed25519.PublicKey { return k.sign.Public().(ed25519.PublicKey) }

// ID returns the key id in the header of tokens.
func (k *Key) ID() string { return k.id }

// Derive returns a secret of 32 bytes for a use of its own, the same on every node
// that has the key.
func (k *Key) Derive(use string) ([]byte, error) {
	secret, err := hkdf.Key(sha256.New, k.derive, nil, use, sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("derive the secret of %s: %w", use, err)
	}
	return secret, nil
}

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

// keyFormat is the first byte of a key file; the seed follows.
const keyFormat = 1

// LoadKey reads the key from a file, and creates the file at first start, readable
// by its owner only. Processes that start at the same time agree on one key.
// Errors: Invalid (other users may read the file: a reader of the key can sign
// tokens for any user), Corrupt.
func LoadKey(path string) (*Key, error) {
	k, err := readKey(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeKey(path); err != nil {
			return nil, fmt.Errorf("make the key file %s: %w", path, err)
		}
		k, err = readKey(path)
	}
	if err != nil {
		return nil, fmt.Errorf("key file %s: %w", path, err)
	}
	return k, nil
}

func readKey(path string) (*Key, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, mayfly.Errorf(mayfly.Invalid, "not a regular file").WithHint("name a file; it is created if it does not exist")
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, mayfly.Errorf(mayfly.Invalid, "other users may read or write it (%s)", info.Mode().Perm()).
			WithHint(fmt.Sprintf("chmod 600 %q; if others have read it, remove it: the next start creates a new key, and every token becomes invalid", path))
	}
	b, err := io.ReadAll(io.LimitReader(f, 1<<10))
	if err != nil {
		return nil, err
	}
	if len(b) != 1+ed25519.SeedSize || b[0] != keyFormat {
		return nil, mayfly.Errorf(mayfly.Corrupt, "not a key (%d bytes)", len(b)).
			WithHint("restore it from a backup, or remove it: the next start creates a new key, and every token becomes invalid")
	}
	return newKey(b[1:])
}

// makeKey writes a new key to a temporary file, syncs it and links it to path. A
// link never replaces a file: a second process finds the key of the first.
func makeKey(path string) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	b := append(make([]byte, 0, 1+ed25519.SeedSize), keyFormat)
	b = b[:cap(b)]
	if _, err := rand.Read(b[1:]); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".key-*") // O_EXCL, 0600
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Link(f.Name(), path)
	}
	if errors.Is(err, fs.ErrExist) {
		err = nil
	}
	return errors.Join(err, os.Remove(f.Name()), syncFolder(dir))
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
