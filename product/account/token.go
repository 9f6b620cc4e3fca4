package account

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/maypok86/otter/v2"

	"github.com/mayflyhq/mayfly"
)

// Token is a bearer token. Its methods never print it: code that sends one must
// convert it to a string, and such conversions can be searched for (C7).
type Token string

const redacted = "[redacted]"

// String hides the token.
func (Token) String() string { return redacted }

// GoString hides the token.
func (Token) GoString() string { return redacted }

// Format hides the token under every verb.
func (Token) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// LogValue hides the token.
func (Token) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText hides the token.
func (Token) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// Grant is the content of an access token.
type Grant struct {
	Issuer, Audience string
	User             mayfly.UserID // zero: no user
	Subject          string        // default the user's id
	Scopes           []Scope
	Lasts            time.Duration
}

// LongestGrant is the longest lifetime of our tokens: a year and a day.
const LongestGrant = 366 * 24 * time.Hour

// claims are the claims of an access token. Our own tokens name the user in a claim,
// because the user may be one of another issuer.
type claims struct {
	jwt.RegisteredClaims
	Scope *string `json:"scope,omitempty"`
	User  string  `json:"user,omitempty"`
}

// accessType is the header typ of our access tokens (RFC 9068), so that nothing else
// that is signed by the same key is accepted as one.
const accessType = "at+jwt"

func (g Grant) check() error {
	refuse := func(format string, args ...any) error {
		return mayfly.Errorf(mayfly.Invalid, format, args...).WithHint("scopes are user, service, moderator, admin; a token with the scope user needs a user")
	}
	switch {
	case g.Issuer == "" || g.Audience == "":
		return refuse("issuer and audience are required")
	case len(g.Scopes) == 0:
		return refuse("at least one scope is required")
	case slices.Contains(g.Scopes, User) && g.User.IsZero():
		return refuse("the scope user requires a user")
	case !goodSubject(g.Subject):
		return refuse("invalid subject %.40q", g.Subject)
	case g.Lasts < time.Second || g.Lasts > LongestGrant:
		return refuse("invalid lifetime %s: a second at least, %s at most", g.Lasts, LongestGrant)
	}
	for _, s := range g.Scopes {
		if !slices.Contains(Scopes(), s) {
			return refuse("unknown scope %.40q", string(s))
		}
	}
	return nil
}

// Mint signs an access token for the grant.
func (k *Key) Mint(g Grant, now mayfly.Instant) (Token, error) {
	c := claims{}
	if !g.User.IsZero() {
		c.User = g.User.String()
		if g.Subject == "" {
			g.Subject = c.User
		}
	}
	if err := g.check(); err != nil {
		return "", fmt.Errorf("mint a token: %w", err)
	}
	words := make([]string, len(g.Scopes))
	for i, s := range g.Scopes {
		words[i] = string(s)
	}
	scope := strings.Join(words, " ")
	var id [16]byte
	if _, err := rand.Read(id[:]); err != nil {
		return "", fmt.Errorf("mint a token: %w", err)
	}
	c.Scope = &scope
	c.RegisteredClaims = jwt.RegisteredClaims{
		Issuer: g.Issuer, Audience: jwt.ClaimStrings{g.Audience}, Subject: g.Subject, ID: base64.RawURLEncoding.EncodeToString(id[:]),
		IssuedAt: jwt.NewNumericDate(now.Time()), NotBefore: jwt.NewNumericDate(now.Time()),
		ExpiresAt: jwt.NewNumericDate(now.Add(g.Lasts).Time()),
	}
	t := jwt.NewWithClaims(jwt.SigningMethodEdDSA, c)
	t.Header["typ"], t.Header["kid"] = accessType, k.id
	signed, err := t.SignedString(k.sign)
	if err != nil {
		return "", mayfly.Errorf(mayfly.Invalid, "mint a token: signing failed")
	}
	return Token(signed), nil
}

// Mint signs an access token with the server's issuer and audience. If lasts is 0 it
// has the configured lifetime of access tokens.
func (a *Accounts) Mint(user mayfly.UserID, subject string, scopes []Scope, lasts time.Duration, now mayfly.Instant) (Token, error) {
	if lasts == 0 {
		lasts = a.o.Access
	}
	return a.o.Key.Mint(Grant{Issuer: a.o.Issuer, Audience: a.o.Audience, User: user, Subject: subject, Scopes: scopes, Lasts: lasts}, now)
}

const (
	maxToken = 8 << 10         // bytes of a bearer token
	skew     = 5 * time.Second // tolerance for an issuer's clock that is ahead; it does not extend a token's end
)

// Verify returns the principal of a bearer token. Errors: Unauthenticated, with a
// hint that says what is wrong without any part of the token; Unavailable.
func (a *Accounts) Verify(ctx context.Context, bearer string, now mayfly.Instant) (Principal, error) {
	v, err := a.read(ctx, bearer, now)
	if err != nil {
		return Principal{}, err
	}
	if err := a.denials.check(ctx, v.principal.token); err != nil {
		return Principal{}, err
	}
	if v.principal.User.IsZero() {
		return v.principal, nil
	}
	if err := a.refuseErased(ctx, v.principal.User); err != nil { // not cached: an erasure ends tokens at once
		return Principal{}, err
	}
	return v.principal, nil
}

// read checks a token, or finds that it was checked before.
func (a *Accounts) read(ctx context.Context, bearer string, now mayfly.Instant) (*verified, error) {
	if bearer == "" || len(bearer) > maxToken {
		return nil, refuse("the token has %d bytes", "a token has 1 byte at least and 8 KiB at most", len(bearer))
	}
	if a.trusted != nil {
		a.trusted.touch(now)
	}
	sum := sha256.Sum256([]byte(bearer))
	if v, ok := a.verified.get(sum, now, a.trusted.current()); ok {
		return v, nil
	}
	v, err := a.verify(ctx, bearer, now)
	if err != nil {
		return nil, err
	}
	a.verified.keep(sum, v)
	return v, nil
}

func refuse(format, hint string, args ...any) error {
	return mayfly.Errorf(mayfly.Unauthenticated, format, args...).WithHint(hint)
}

// verify checks a token that is not in the cache.
func (a *Accounts) verify(ctx context.Context, bearer string, now mayfly.Instant) (*verified, error) {
	parser := jwt.NewParser(
		jwt.WithValidMethods([]string{jwt.SigningMethodEdDSA.Alg(), jwt.SigningMethodRS256.Alg()}),
		jwt.WithAudience(a.o.Audience), jwt.WithExpirationRequired(), jwt.WithIssuedAt(), jwt.WithStrictDecoding(),
		jwt.WithLeeway(skew), jwt.WithTimeFunc(now.Time),
	)
	var c claims
	v := &verified{}
	_, err := parser.ParseWithClaims(bearer, &c, func(t *jwt.Token) (key any, err error) {
		key, v.keys, err = a.keyFor(ctx, t, &c, now)
		return key, err
	})
	if err != nil {
		return nil, readable(err)
	}
	v.until = mayfly.InstantOf(c.ExpiresAt.Time)
	if now >= v.until {
		return nil, readable(jwt.ErrTokenExpired)
	}
	if c.NotBefore != nil {
		v.from = mayfly.InstantOf(c.NotBefore.Time).Add(-skew)
	}
	if v.keys != nil {
		if err := a.trusted.checkSpan(&c, now); err != nil {
			return nil, err
		}
	}
	v.principal, err = a.principal(&c)
	v.principal.Until, v.principal.token, v.jti = v.until, tokenOf(c.Issuer, c.ID), c.ID
	return v, err
}

// keyFor returns the key that a token must be signed with. The issuer determines the
// keys and the key determines the algorithm; the token cannot choose either.
func (a *Accounts) keyFor(ctx context.Context, t *jwt.Token, c *claims, now mayfly.Instant) (any, *keySet, error) {
	if _, critical := t.Header["crit"]; critical {
		return nil, nil, refuse("the token has critical extensions", "remove the header crit")
	}
	id, _ := t.Header["kid"].(string)
	switch {
	case c.Issuer == a.o.Issuer:
		if t.Method != jwt.SigningMethodEdDSA || t.Header["typ"] != accessType || id != a.o.Key.id {
			return nil, nil, refuse("the token is not signed with this server's key", freshHint)
		}
		return a.o.Key.Public(), nil, nil
	case a.trusted != nil && c.Issuer == a.trusted.o.Issuer:
		if err := checkType(t.Header); err != nil {
			return nil, nil, err
		}
		return a.trusted.key(ctx, id, t.Method.Alg(), now)
	default:
		return nil, nil, refuse("the issuer of the token is not trusted", "tokens.trusted and tokens.issuer name the accepted issuers")
	}
}

const freshHint = "get a new one: POST /v1/token with the refresh token, or mayfly token"

// readable returns the error for a refused token. It contains no part of the token.
func readable(err error) error {
	var ours *mayfly.Error
	switch {
	case errors.As(err, &ours):
		return ours
	case errors.Is(err, jwt.ErrTokenExpired):
		return refuse("the token has expired", freshHint)
	case errors.Is(err, jwt.ErrTokenNotValidYet), errors.Is(err, jwt.ErrTokenUsedBeforeIssued):
		return refuse("the token is not valid yet", "compare the clocks of its issuer and of this server")
	case errors.Is(err, jwt.ErrTokenInvalidAudience):
		return refuse("the token is for another audience", "tokens.audience is the accepted one")
	case errors.Is(err, jwt.ErrTokenRequiredClaimMissing):
		return refuse("the token lacks a claim", "exp, iss, aud and sub are required")
	case errors.Is(err, jwt.ErrTokenMalformed):
		return refuse("the token is malformed", "send Authorization: Bearer and an access token (three parts with dots between them); a refresh token is only for POST /v1/token")
	default:
		return refuse("the token's signature is invalid", freshHint)
	}
}

// principal returns the principal for the claims of a verified token. Unknown scopes
// are ignored. A token of the trusted issuer without the claim scope has the scope
// user, because many issuers have no scopes; of its scopes it has those that the
// issuer may grant.
func (a *Accounts) principal(c *claims) (Principal, error) {
	if !goodSubject(c.Subject) {
		return Principal{}, refuse("the token has no valid subject", "sub must be 1 to 256 bytes of text")
	}
	p, granted, allowed := Principal{Issuer: c.Issuer, Subject: c.Subject}, string(User), Scopes()
	if c.Scope != nil {
		granted = *c.Scope
	}
	if c.Issuer != a.o.Issuer {
		allowed = a.trusted.o.Scopes
	}
	for word := range strings.FieldsSeq(granted) {
		if s := Scope(word); slices.Contains(allowed, s) && !p.Has(s) {
			p.Scopes = append(p.Scopes, s)
		}
	}
	if len(p.Scopes) == 0 && c.Issuer != a.o.Issuer {
		return Principal{}, refuse("the token grants no scope that its issuer may grant", "tokens.trusted_scopes names the scopes of a trusted issuer")
	}
	if !p.Has(User) && !p.Has(Moderator) {
		return p, nil // a service or an operator: no user
	}
	var err error
	switch {
	case c.Issuer == a.o.Issuer && c.User != "":
		p.User, err = mayfly.ParseUserID(c.User)
	case c.Issuer == a.o.Issuer: // minted for no user
	case c.Issuer == a.o.Home:
		p.User = mayfly.HomeUserOf(c.Issuer, c.Subject)
	default:
		p.User = mayfly.UserOf(c.Issuer, c.Subject)
	}
	if err != nil {
		return Principal{}, fmt.Errorf("verify a token of ours: %w", err)
	}
	return p, nil
}

// verified is a token that was verified. It is shared and never changed.
type verified struct {
	principal   Principal
	jti         string // may be empty
	from, until mayfly.Instant
	keys        *keySet // of the trusted issuer, at the time of the check; nil: our own key
}

// verifiedTokens caches verified tokens by their hash, so that the cache contains no
// usable token.
type verifiedTokens struct {
	tokens *otter.Cache[[sha256.Size]byte, *verified] // nil when nothing is cached
}

func newVerifiedTokens(most int) *verifiedTokens {
	if most < 0 {
		return &verifiedTokens{}
	}
	return &verifiedTokens{tokens: otter.Must(&otter.Options[[sha256.Size]byte, *verified]{MaximumSize: most})}
}

// get returns a cached token that is still valid: within its time, and verified with
// keys that its issuer has not changed since.
func (t *verifiedTokens) get(sum [sha256.Size]byte, now mayfly.Instant, keys *keySet) (*verified, bool) {
	if t.tokens == nil {
		return nil, false
	}
	v, ok := t.tokens.GetIfPresent(sum)
	if !ok || now < v.from || now >= v.until || v.keys != nil && v.keys != keys {
		return nil, false
	}
	return v, true
}

func (t *verifiedTokens) keep(sum [sha256.Size]byte, v *verified) {
	if t.tokens != nil {
		t.tokens.Set(sum, v)
	}
}
