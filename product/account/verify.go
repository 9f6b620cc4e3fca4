package account

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/mayflyhq/mayfly"
)

const (
	maxToken = 8 << 10         // bytes of a bearer token
	skew     = 5 * time.Second // that another issuer's clock may be ahead; a token is over to the second all the same
)

// Verify is who a bearer token speaks for. Errors: Unauthenticated, with a hint
// that says what is wrong and nothing of what is secret; Unavailable.
func (a *Accounts) Verify(ctx context.Context, bearer string, now mayfly.Instant) (Principal, error) {
	if bearer == "" || len(bearer) > maxToken {
		return Principal{}, refuse("a token of %d bytes", "a token has some bytes, and 8 KiB at most", len(bearer))
	}
	if a.trusted != nil {
		a.trusted.touch(now)
	}
	sum := sha256.Sum256([]byte(bearer))
	v, ok := a.verified.get(sum, now, a.trusted.current())
	if !ok {
		var err error
		if v, err = a.verify(ctx, bearer, now); err != nil {
			return Principal{}, err
		}
		a.verified.keep(sum, v)
	}
	if v.principal.User.IsZero() {
		return v.principal, nil
	}
	if err := a.refuseErased(ctx, v.principal.User); err != nil { // asked every time: an erasure ends tokens at once
		return Principal{}, err
	}
	return v.principal, nil
}

func refuse(format, hint string, args ...any) error {
	return mayfly.Errorf(mayfly.Unauthenticated, format, args...).WithHint(hint)
}

// verify checks a token that is not remembered.
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
	v.principal.Until = v.until
	return v, err
}

// keyFor is the key that a token must be signed with: the issuer decides whose,
// the key decides the algorithm, and neither is the token's to choose.
func (a *Accounts) keyFor(ctx context.Context, t *jwt.Token, c *claims, now mayfly.Instant) (any, *keySet, error) {
	if _, critical := t.Header["crit"]; critical {
		return nil, nil, refuse("the token has critical extensions", "leave the header crit out")
	}
	id, _ := t.Header["kid"].(string)
	switch {
	case c.Issuer == a.o.Issuer:
		if t.Method != jwt.SigningMethodEdDSA || t.Header["typ"] != accessType || id != a.o.Key.id {
			return nil, nil, refuse("the token is not signed as ours are", freshHint)
		}
		return a.o.Key.Public(), nil, nil
	case a.trusted != nil && c.Issuer == a.trusted.o.Issuer:
		return a.trusted.key(ctx, id, t.Method.Alg(), now)
	default:
		return nil, nil, refuse("the token is of an issuer that is not trusted here", "tokens.trusted and tokens.issuer say whose are")
	}
}

const freshHint = "get a fresh one: POST /v1/token with the refresh token, or mayfly token"

// readable is what may be said about a token that was refused: nothing of it.
func readable(err error) error {
	var ours *mayfly.Error
	switch {
	case errors.As(err, &ours):
		return ours
	case errors.Is(err, jwt.ErrTokenExpired):
		return refuse("the token is over", freshHint)
	case errors.Is(err, jwt.ErrTokenNotValidYet), errors.Is(err, jwt.ErrTokenUsedBeforeIssued):
		return refuse("the token is not good yet", "compare the clocks of its issuer and of this server")
	case errors.Is(err, jwt.ErrTokenInvalidAudience):
		return refuse("the token is for another audience", "tokens.audience says which is ours")
	case errors.Is(err, jwt.ErrTokenRequiredClaimMissing):
		return refuse("the token lacks a claim", "exp, iss, aud and sub are needed")
	case errors.Is(err, jwt.ErrTokenMalformed):
		return refuse("the token cannot be read", "send Authorization: Bearer and an access token: three parts with dots between them; a refresh token is for POST /v1/token alone")
	default:
		return refuse("the token's signature is not good", freshHint)
	}
}

// principal is who the claims of a checked token speak of. Of the words of scope
// those that mean nothing here are passed over. A trusted issuer's token without
// the claim is a user's: issuers that know no scopes have users.
func (a *Accounts) principal(c *claims) (Principal, error) {
	if !goodSubject(c.Subject) {
		return Principal{}, refuse("the token names nobody", "sub has 1 to 256 bytes of text")
	}
	p := Principal{Issuer: c.Issuer, Subject: c.Subject, Scopes: []Scope{User}}
	if c.Scope != nil {
		p.Scopes = nil
		for word := range strings.FieldsSeq(*c.Scope) {
			if s := Scope(word); slices.Contains(Scopes(), s) && !p.Has(s) {
				p.Scopes = append(p.Scopes, s)
			}
		}
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
