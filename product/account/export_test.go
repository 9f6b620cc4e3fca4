package account

import (
	"crypto/ed25519"

	"github.com/mayflyhq/mayfly"
)

// Private is the private half, so that tests can sign what Mayfly never signs.
func (k *Key) Private() ed25519.PrivateKey { return k.sign }

// Touch has the trusted keys read if they are due, as a request does.
func (a *Accounts) Touch(now mayfly.Instant) { a.trusted.touch(now) }

// Settle waits until no reading of the trusted keys is under way.
func (a *Accounts) Settle() { a.trusted.wg.Wait() }
