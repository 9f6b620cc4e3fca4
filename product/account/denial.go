package account

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// AccessToken names an access token that is to be refused before its end.
type AccessToken struct {
	Issuer string
	ID     string         // its claim jti
	User   mayfly.UserID  // zero: none, or not known
	Until  mayfly.Instant // when it ends at the latest
}

// ReadAccess returns the name of a token that is accepted now. Errors:
// Unauthenticated, Invalid (it has no jti), Unavailable.
func (a *Accounts) ReadAccess(ctx context.Context, bearer string, now mayfly.Instant) (AccessToken, error) {
	v, err := a.read(ctx, bearer, now)
	if err != nil {
		return AccessToken{}, err
	}
	if v.jti == "" {
		return AccessToken{}, mayfly.Errorf(mayfly.Invalid, "the token has no id, so it cannot be denied before its end").
			WithHint("let its issuer set the claim jti")
	}
	return AccessToken{Issuer: v.principal.Issuer, ID: v.jti, User: v.principal.User, Until: v.until}, nil
}

// AccessNamed returns the token with an id (the claim jti) of an issuer, by default
// our own. Its end is not known, so Until is that of the issuer's longest token.
// Errors: Invalid.
func (a *Accounts) AccessNamed(issuer, id string, now mayfly.Instant) (AccessToken, error) {
	if issuer == "" {
		issuer = a.o.Issuer
	}
	t := AccessToken{Issuer: issuer, ID: id}
	switch {
	case !goodSubject(id):
		return t, mayfly.Errorf(mayfly.Invalid, "invalid id %.40q of a token", id).WithHint("it is the claim jti of the token")
	case issuer == a.o.Issuer:
		t.Until = now.Add(LongestGrant)
	case a.trusted != nil && issuer == a.trusted.o.Issuer:
		t.Until = now.Add(a.trusted.o.Longest + skew)
	default:
		return t, mayfly.Errorf(mayfly.Invalid, "no token of the issuer %.40q is accepted", issuer).
			WithHint("tokens.trusted and tokens.issuer name the accepted issuers")
	}
	return t, nil
}

// Deny refuses an access token from now on. When it returns nil no node accepts the
// token any more. Doing it twice is doing it once. Errors: Unavailable, Unknown;
// after both, ask again.
func (a *Accounts) Deny(ctx context.Context, t AccessToken) error {
	id := tokenOf(t.Issuer, t.ID)
	_, err := store.Update(ctx, a.o.Rows, DeniedTokens, id.key(), t.Until.Add(deniedMargin), func([]byte) ([]byte, error) { return []byte{deniedFormat}, nil })
	if err == nil { // also when it was denied before: an earlier try may have ended before it published
		err = store.Invalidate(ctx, a.o.Signals, store.Signal{Topic: store.TokenDenied, ID: mayfly.ID(id)})
	}
	if err != nil {
		return fmt.Errorf("deny a token: %w", err)
	}
	return nil
}

// Revoke denies the access token that the caller presents. A token that is not
// accepted anyway is no error, so that the answer tells nothing. Errors: Invalid (it
// has no jti), Unavailable, Unknown.
func (a *Accounts) Revoke(ctx context.Context, bearer string, now mayfly.Instant) error {
	t, err := a.ReadAccess(ctx, bearer, now)
	switch {
	case errors.Is(err, mayfly.Unauthenticated):
		return nil
	case err != nil:
		return err
	}
	return a.Deny(ctx, t)
}

// CheckDenied returns an error of kind Unauthenticated if the token of a principal
// was denied since it was verified: for answers that go on for long.
func (a *Accounts) CheckDenied(ctx context.Context, p Principal) error {
	return a.denials.check(ctx, p.token)
}

const (
	deniedFormat = 1
	// deniedMargin is how long a denial outlives its token: clocks of the store may be ahead.
	deniedMargin = time.Hour
)

// tokenID identifies an access token: a hash of its issuer and its claim jti. The
// zero tokenID is that of tokens without a jti.
type tokenID [16]byte

func tokenOf(issuer, id string) tokenID {
	if id == "" {
		return tokenID{}
	}
	b := binary.AppendUvarint([]byte("mayfly-token"), uint64(len(issuer)))
	sum := sha256.Sum256(append(append(b, issuer...), id...))
	return tokenID(sum[:])
}

func (t tokenID) key() store.Key { return store.Key{Partition: string(t[:])} }

// denials checks whether tokens were denied. That a token was not is remembered
// under the lease of Signals, and for store.CacheAge at most, because a node that is
// cut off cannot publish what it denies (trap 18). Without the lease each token is
// looked up.
type denials struct {
	rows    store.Rows
	signals store.Subscription
	elapsed func() time.Duration

	mu      sync.Mutex
	count   uint64                         // of signals: a read that began before one is not remembered
	allowed *otter.Cache[tokenID, allowed] // nil when nothing is cached
}

// allowed is when the row of a token was looked for and not found. It is taken
// before the read begins.
type allowed struct {
	epoch uint64
	at    time.Duration
}

func newDenials(ctx context.Context, o Options) (*denials, error) {
	d := &denials{rows: o.Rows, elapsed: o.Elapsed}
	if o.Verified > 0 {
		d.allowed = otter.Must(&otter.Options[tokenID, allowed]{MaximumSize: o.Verified})
	}
	sub, err := o.Signals.Subscribe(ctx, d.handle)
	if err != nil {
		return nil, fmt.Errorf("account: subscribe to signals: %w", err)
	}
	d.signals = sub
	return d, nil
}

func (d *denials) handle(s store.Signal) {
	if s.Topic != store.TokenDenied {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.count++
	if d.allowed != nil {
		d.allowed.Invalidate(tokenID(s.ID))
	}
}

// check returns an error of kind Unauthenticated if the token was denied.
func (d *denials) check(ctx context.Context, id tokenID) error {
	if id == (tokenID{}) {
		return nil
	}
	epoch, held := d.signals.Lease()
	now := allowed{epoch: epoch, at: d.elapsed()}
	if d.known(id, now, held) {
		return nil
	}
	d.mu.Lock()
	count := d.count
	d.mu.Unlock()
	found, err := d.rows.Get(ctx, DeniedTokens, id.key())
	if err != nil {
		return fmt.Errorf("look for the denial of a token: %w", err)
	}
	if found[0] != nil {
		return refuse("the token was revoked", freshHint)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if held && d.allowed != nil && d.count == count {
		d.allowed.Set(id, now)
	}
	return nil
}

// known reports whether the token was not denied when it was last looked up, and
// that may be used.
func (d *denials) known(id tokenID, now allowed, held bool) bool {
	if !held || d.allowed == nil {
		return false
	}
	last, ok := d.allowed.GetIfPresent(id)
	return ok && last.epoch == now.epoch && now.at-last.at < store.CacheAge
}
