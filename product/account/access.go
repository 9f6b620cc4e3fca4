package account

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/mayflyhq/mayfly"
)

// Grant is what an access token is to say.
type Grant struct {
	Issuer, Audience string
	User             mayfly.UserID // zero: of no user
	Subject          string        // empty: the user
	Scopes           []Scope
	Lasts            time.Duration
}

// LongestGrant is the longest that a token of ours may last: a year and a day.
const LongestGrant = 366 * 24 * time.Hour

// claims are what an access token says. Ours name the user outright: whom a
// token is for may be another issuer's user.
type claims struct {
	jwt.RegisteredClaims
	Scope *string `json:"scope,omitempty"`
	User  string  `json:"user,omitempty"`
}

// accessType is the header typ of our access tokens (RFC 9068): no other
// signature by the same key can be taken for one.
const accessType = "at+jwt"

func (g Grant) check() error {
	refuse := func(format string, args ...any) error {
		return mayfly.Errorf(mayfly.Invalid, format, args...).WithHint("scopes are user, service, moderator, admin; a token of the scope user names one")
	}
	switch {
	case g.Issuer == "" || g.Audience == "":
		return refuse("a token without issuer or audience")
	case len(g.Scopes) == 0:
		return refuse("a token without a scope is good for nothing")
	case slices.Contains(g.Scopes, User) && g.User.IsZero():
		return refuse("a token of the scope user names no user")
	case !goodSubject(g.Subject):
		return refuse("%.40q cannot be a subject", g.Subject)
	case g.Lasts < time.Second || g.Lasts > LongestGrant:
		return refuse("a token cannot last %s; a second at least, %s at most", g.Lasts, LongestGrant)
	}
	for _, s := range g.Scopes {
		if !slices.Contains(Scopes(), s) {
			return refuse("%.40q is no scope", string(s))
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
		return "", mayfly.Errorf(mayfly.Invalid, "mint a token: it could not be signed")
	}
	return Token(signed), nil
}

// Mint is an access token of ours. Without a time it lasts as long as access
// tokens do.
func (a *Accounts) Mint(user mayfly.UserID, subject string, scopes []Scope, lasts time.Duration, now mayfly.Instant) (Token, error) {
	if lasts == 0 {
		lasts = a.o.Access
	}
	return a.o.Key.Mint(Grant{Issuer: a.o.Issuer, Audience: a.o.Audience, User: user, Subject: subject, Scopes: scopes, Lasts: lasts}, now)
}
