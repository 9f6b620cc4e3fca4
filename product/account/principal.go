package account

import (
	"context"
	"errors"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/audit"
)

// Scope is what a token allows.
type Scope string

// The scopes.
const (
	User      Scope = "user"      // acts as the user it names
	Service   Scope = "service"   // acts for the user in the header Mayfly-User, and changes relations
	Moderator Scope = "moderator" // sees everything; holds and restores
	Admin     Scope = "admin"     // operates the server; gives no access to content (C2)
)

// Scopes lists every scope.
func Scopes() []Scope { return []Scope{User, Service, Moderator, Admin} }

// Principal is the caller of a request. The zero Principal is anonymous.
type Principal struct {
	User    mayfly.UserID  // zero: no user
	Issuer  string         // of the token
	Subject string         // of the token
	Scopes  []Scope        // shared: never changed
	For     bool           // a service acts for User
	Until   mayfly.Instant // when the token ends; 0: there is none
	token   tokenID        // for CheckDenied
}

// Has reports whether the principal has the scope.
func (p Principal) Has(s Scope) bool { return slices.Contains(p.Scopes, s) }

// IsAnonymous reports whether the caller sent no token.
func (p Principal) IsAnonymous() bool {
	return len(p.Scopes) == 0 && p.User.IsZero() && p.Subject == ""
}

// Viewer returns the viewer that the gate judges. A service that acts for a user
// sees what that user sees and nothing more; a service or an administrator without
// a user sees what an anonymous viewer sees (C2).
func (p Principal) Viewer() mayfly.Viewer {
	switch {
	case p.For:
		return mayfly.ViewerOf(p.User)
	case p.Has(Moderator):
		return mayfly.ModeratorOf(p.User)
	case p.Has(User):
		return mayfly.ViewerOf(p.User)
	default:
		return mayfly.Viewer{}
	}
}

// Holder returns what tells the principal from all others: the issuer and the
// subject of its token.
func (p Principal) Holder() string { return p.Issuer + "\x00" + p.Subject }

// Actor returns the principal for the audit log.
func (p Principal) Actor() audit.Actor {
	if p.IsAnonymous() {
		return audit.Actor{Subject: "anonymous"}
	}
	a := audit.Actor{Issuer: p.Issuer, Subject: p.Subject}
	if a.Subject == "" {
		a.Subject = p.User.String()
	}
	if len(a.Issuer) > audit.MaxIssuer { // a configured name: its start is enough
		a.Issuer = strings.ToValidUTF8(a.Issuer[:audit.MaxIssuer], "")
	}
	if p.For {
		a.For = p.User
	}
	return a
}

// ActFor returns p acting for the user in the header Mayfly-User; p itself if the
// header is empty. The result loses the other scopes of p: it sees what the user
// sees. Errors: Denied (p is no service, or the user was erased), Invalid.
func (a *Accounts) ActFor(ctx context.Context, p Principal, header string) (Principal, error) {
	if header == "" {
		return p, nil
	}
	if !p.Has(Service) {
		return Principal{}, mayfly.Errorf(mayfly.Denied, "only a service may act for another user").WithHint("remove the header Mayfly-User, or send a token with the scope service")
	}
	user, err := a.UserNamed(header)
	if err != nil {
		return Principal{}, err
	}
	switch err := a.refuseErased(ctx, user); {
	case errors.Is(err, mayfly.Unauthenticated): // the service's own token is good
		return Principal{}, mayfly.Errorf(mayfly.Denied, "the account was erased").WithHint("a service cannot act for an erased account")
	case err != nil:
		return Principal{}, err
	}
	return Principal{User: user, Issuer: p.Issuer, Subject: p.Subject, Scopes: []Scope{User, Service}, For: true, Until: p.Until, token: p.token}, nil
}

// maxSubject is the longest subject, in bytes.
const maxSubject = 256

// goodSubject reports whether s can be a subject: not empty, and readable in a log.
func goodSubject(s string) bool {
	return s != "" && len(s) <= maxSubject && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}
