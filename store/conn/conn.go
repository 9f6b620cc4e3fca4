// Package conn holds what the drivers of remote servers have in common: TLS,
// credentials, pauses between tries and a breaker for a server that does not
// answer. It opens no connection itself and logs nothing; credentials never
// print.
package conn

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/mayflyhq/mayfly"
)

// TLS says how a connection is encrypted. The zero TLS is plain TCP.
type TLS struct {
	Enabled bool
	CA      []byte // CA bundle in PEM that signed the server's certificate; the system's if empty
}

// Config returns the configuration of crypto/tls; nil if t is not enabled.
// Errors: Invalid (a bundle without TLS, or without a certificate).
func (t TLS) Config() (*tls.Config, error) {
	if !t.Enabled {
		if len(t.CA) > 0 {
			return nil, mayfly.Errorf(mayfly.Invalid, "CA bundle without TLS").WithHint("enable TLS, or leave out the CA bundle")
		}
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(t.CA) > 0 {
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(t.CA) {
			return nil, mayfly.Errorf(mayfly.Invalid, "no certificate in the CA bundle").
				WithHint("it must be in PEM, between BEGIN CERTIFICATE and END CERTIFICATE")
		}
	}
	return c, nil
}

// Credentials are what a driver authenticates with: a user and a password, or an
// access key and its secret. The zero Credentials are none.
type Credentials struct {
	User     string
	Password mayfly.Secret
}

// Validate refuses a user without a password and a password without a user.
func (c Credentials) Validate() error {
	if (c.User == "") != (c.Password == "") {
		return mayfly.Errorf(mayfly.Invalid, "user and password must be set together")
	}
	return nil
}

// String says whether there are any.
func (c Credentials) String() string {
	if c == (Credentials{}) {
		return ""
	}
	return "(hidden)"
}

// Format prints the same for every verb.
func (c Credentials) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, c.String()) }

// LogValue keeps them out of structured logs.
func (c Credentials) LogValue() slog.Value { return slog.StringValue(c.String()) }

// MarshalText keeps them out of JSON and YAML.
func (c Credentials) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// Backoff is the pause between the tries of a request: First after the first
// one, then doubled, at most Longest.
type Backoff struct{ First, Longest time.Duration }

// After returns the pause after the n-th try. Half of it is random, so that
// callers that failed together do not return together.
func (b Backoff) After(n int) time.Duration { return b.after(n, rand.Float64()) }

func (b Backoff) after(n int, random float64) time.Duration {
	pause := b.Longest
	if n < 32 {
		pause = min(b.First<<max(n-1, 0), b.Longest)
	}
	return pause/2 + time.Duration(random*float64(pause/2))
}

// Breaker spares callers the wait for a server that has just failed: for a while
// no call is let through, and then one at a time until one is answered. The zero
// Breaker lets calls through. Each call that Allow has let through ends with one
// of the other methods. Safe for concurrent use.
type Breaker struct {
	mu     sync.Mutex
	open   bool // the last call failed
	until  time.Duration
	trying bool
}

// Allow reports whether a call may be made at now, elapsed time of the process.
func (b *Breaker) Allow(now time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open && (b.trying || now < b.until) {
		return false
	}
	b.trying = b.open
	return true
}

// Answered ends a call that the server answered, with a refusal too.
func (b *Breaker) Answered() { b.end(func() { b.open = false }) }

// Failed ends a call that the server did not answer. Until then none is made.
func (b *Breaker) Failed(until time.Duration) { b.end(func() { b.open, b.until = true, until }) }

// Abandoned ends a call whose caller went away: it tells nothing of the server.
func (b *Breaker) Abandoned() { b.end(func() {}) }

func (b *Breaker) end(change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trying = false
	change()
}
