// Package account authenticates callers: it has the tokens and the key that signs
// them, the relations between users, signed passes for media, and rate limits.
//
// A token is accepted only if its algorithm, issuer, audience and time are as
// configured. An erased user gets no token, and existing tokens end. Relations
// change by compare-and-set, and a change is acknowledged only after no cache holds
// the old one. The package never prints a secret and never reads a clock: callers
// pass the time (C1, C7, ST10, ST14).
package account

import (
	"context"
	"io"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/accounterase"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/loop"
)

// Options are the settings of Accounts. Rows, Signals and Key are required.
type Options struct {
	Rows    store.Rows
	Signals store.Signals
	Limits  store.Limits // nil: no limits
	Key     *Key         // signs our own tokens

	Issuer   string        // of our own tokens; default "mayfly"
	Audience string        // of all tokens; default "mayfly"
	Home     string        // the issuer whose UUID subjects are users as they are; default Issuer (C8)
	Access   time.Duration // how long an access token lasts; default 15 min
	Refresh  time.Duration // how long a refresh token lasts; default 30 days
	Trusted  Trusted       // the embedding product's issuer; zero: none
	Verified int           // how many verified tokens are remembered; default 16,384, negative for none

	// Elapsed is a clock that only runs forward; it measures for how long a token is
	// known not to be denied. In a cluster it must also count the time in which the
	// machine is suspended. Nil uses the monotonic clock of the process, which does not.
	Elapsed func() time.Duration

	Writes, Reads               Rate // per user; a Count of 0 is no limit (C3)
	AddressWrites, AddressReads Rate // per address, for callers without a token
	Follows                     Rate // per user, for callers of FollowRate; follows count as writes too

	// FollowersAbove is above how many followers an author's new ones go to further
	// partitions; default 100,000.
	FollowersAbove int

	// Shrink writes a small picture of an image that a user sends, and returns its type.
	// Nil: users cannot send avatars.
	Shrink func(ctx context.Context, small io.Writer, image io.Reader, longest int) (typ string, err error)

	// Purge makes shared caches drop what they have of a user. It is called before a
	// block is written, before an account becomes private and before its avatar changes, and what it does must survive a crash. May be nil.
	Purge func(ctx context.Context, owner mayfly.UserID, now mayfly.Instant) error
}

func (o Options) withDefaults() (Options, error) {
	text := func(s *string, v string) {
		if *s == "" {
			*s = v
		}
	}
	last := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	text(&o.Issuer, "mayfly")
	text(&o.Audience, "mayfly")
	text(&o.Home, o.Issuer)
	last(&o.Access, 15*time.Minute)
	last(&o.Refresh, 30*24*time.Hour)
	if o.Verified == 0 {
		o.Verified = 1 << 14
	}
	if o.FollowersAbove == 0 {
		o.FollowersAbove = 100_000
	}
	if o.Elapsed == nil {
		o.Elapsed = loop.Stopwatch()
	}
	if o.Rows == nil || o.Signals == nil || o.Key == nil {
		return o, mayfly.Errorf(mayfly.Invalid, "account: rows, signals and the key are required")
	}
	if o.Access < time.Second || o.Refresh < o.Access {
		return o, mayfly.Errorf(mayfly.Invalid, "account: access tokens last %s and refresh tokens %s", o.Access, o.Refresh).
			WithHint("an access token lasts a second at least, and no longer than a refresh token")
	}
	for _, rate := range []Rate{o.Writes, o.Reads, o.AddressWrites, o.AddressReads, o.Follows} {
		if rate.Count < 0 || rate.Count > 0 && rate.Per <= 0 {
			return o, mayfly.Errorf(mayfly.Invalid, "account: invalid rate %d per %s", rate.Count, rate.Per).WithHint("a count of 0 is no limit")
		}
	}
	if o.Trusted.Issuer != "" && o.Trusted.Issuer == o.Issuer {
		return o, mayfly.Errorf(mayfly.Invalid, "account: the trusted issuer and our own are both named %q", o.Issuer).
			WithHint("give tokens.issuer another name: an issuer's name decides whose key a token is checked with")
	}
	return o, nil
}

// Accounts verifies and issues tokens, and keeps relations and limits. It is safe
// for concurrent use.
type Accounts struct {
	o        Options
	verified *verifiedTokens
	denials  *denials
	trusted  *trustedKeys // nil without a trusted issuer
}

// New returns Accounts on the store. Close it to end its background work.
func New(ctx context.Context, o Options) (*Accounts, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	a := &Accounts{o: o, verified: newVerifiedTokens(o.Verified)}
	if o.Trusted.Issuer != "" || o.Trusted.File != "" || o.Trusted.URL != "" {
		if a.trusted, err = newTrustedKeys(o.Trusted); err != nil {
			return nil, err
		}
	}
	if a.denials, err = newDenials(ctx, o); err != nil {
		a.closeTrusted()
		return nil, err
	}
	return a, nil
}

// AccessLifetime returns how long an access token is valid.
func (a *Accounts) AccessLifetime() time.Duration { return a.o.Access }

// Close ends the subscription to signals and a running read of the trusted keys.
func (a *Accounts) Close() error {
	a.closeTrusted()
	return a.denials.signals.Close()
}

func (a *Accounts) closeTrusted() {
	if a.trusted != nil {
		a.trusted.close()
	}
}

// refuseErased returns an error of kind Unauthenticated if the user's account was
// erased (ST14).
func (a *Accounts) refuseErased(ctx context.Context, user mayfly.UserID) error {
	erased, err := accounterase.Tombstones(ctx, a.o.Rows, user)
	if err != nil {
		return err
	}
	if erased[0] {
		return mayfly.Errorf(mayfly.Unauthenticated, "the account was erased").WithHint("an erased account cannot be restored; make another")
	}
	return nil
}

// UserNamed returns the user that text names: a UUID, or ~ and a subject of the
// home issuer.
func (a *Accounts) UserNamed(text string) (mayfly.UserID, error) {
	if len(text) > 0 && text[0] == '~' {
		if !goodSubject(text[1:]) {
			return mayfly.UserID{}, mayfly.Errorf(mayfly.Invalid, "invalid user %.40q", text).WithHint(nameHint)
		}
		return mayfly.HomeUserOf(a.o.Home, text[1:]), nil
	}
	user, err := mayfly.ParseUserID(text)
	if err != nil || user.IsZero() {
		return mayfly.UserID{}, mayfly.Errorf(mayfly.Invalid, "invalid user %.40q", text).WithHint(nameHint)
	}
	return user, nil
}

const nameHint = "a user is a UUID in lower case, or ~ and the subject at the home issuer, such as ~ana"
