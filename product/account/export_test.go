package account

import (
	"crypto"
	"crypto/ed25519"

	"github.com/mayflyhq/mayfly"
)

// Private returns the private key, so that tests can sign tokens that Mayfly never signs.
func (k *Key) Private() ed25519.PrivateKey { return k.sign }

// Touch starts a read of the trusted keys if one is due, as a request does.
func (a *Accounts) Touch(now mayfly.Instant) { a.trusted.touch(now) }

// Settle waits until no read of the trusted keys runs.
func (a *Accounts) Settle() { a.trusted.wg.Wait() }

// ReadJWKS returns the public keys of a JWKS that can verify tokens.
func ReadJWKS(text []byte) (keys []crypto.PublicKey, err error) {
	set, err := readJWKS(text)
	if err != nil {
		return nil, err
	}
	for _, k := range set.keys {
		keys = append(keys, k.public)
	}
	return keys, nil
}
