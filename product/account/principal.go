package account

import (
	"context"
	"errors"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mayflyhq/mayfly"
)

// Scope is what a token is good for.
type Scope string

// The scopes.
const (
	User      Scope = "user"      // acts as the user it names
	Service   Scope = "service"   // acts for the user named beside it, and says who follows whom
	Moderator Scope = "moderator" // sees everything; holds and restores
	Admin     Scope = "admin"     // runs the house, and sees no content by that alone (C2)
)

// Scopes lists every scope.
func Scopes() []Scope { return []Scope{User, Service, Moderator, Admin} }

// Principal is who asks. The zero Principal is anonymous.
type Principal struct {
	User    mayfly.UserID  // zero: no user
	Issuer  string         // who says so
	Subject string         // what the issuer calls who holds the token
	Scopes  []Scope        // shared: never changed
	For     bool           // a service that acts for User
	Until   mayfly.Instant // when the token ends; 0: there is none
}

// Has says whether the principal has the scope.
func (p Principal) Has(s Scope) bool { return slices.Contains(p.Scopes, s) }

// IsAnonymous says whether no token came.
func (p Principal) IsAnonymous() bool {
	return len(p.Scopes) == 0 && p.User.IsZero() && p.Subject == ""
}

// Viewer is with whose eyes the principal sees (C2): a service that acts for a
// user with that user's and nothing more; a service alone and an administrator
// as such with nobody's.
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

// maxActor is what the audit log takes.
const maxActor = 128

// Actor is the principal's name in the audit log.
func (p Principal) Actor() string {
	name := p.Subject
	switch {
	case p.IsAnonymous():
		return "anonymous"
	case name == "":
		name = p.User.String()
	}
	if p.For {
		// The user in front: whatever the service is called, who it was for stays readable.
		name = p.User.String() + " by " + name
	} else if p.Issuer != "" {
		name += " of " + p.Issuer
	}
	if len(name) > maxActor {
		name = strings.ToValidUTF8(name[:maxActor], "")
	}
	return name
}

// ActFor is p acting for the user that the header Mayfly-User names; p itself if
// it is empty. Only a service may, and for nobody who was erased (Denied). What
// else the token was good for is left behind: who acts for a user sees what that
// user sees.
func (a *Accounts) ActFor(ctx context.Context, p Principal, header string) (Principal, error) {
	if header == "" {
		return p, nil
	}
	if !p.Has(Service) {
		return Principal{}, mayfly.Errorf(mayfly.Denied, "only a service acts for another user").WithHint("leave the header Mayfly-User out, or send a token of the scope service")
	}
	user, err := a.UserNamed(header)
	if err != nil {
		return Principal{}, err
	}
	switch err := a.refuseErased(ctx, user); {
	case errors.Is(err, mayfly.Unauthenticated): // the service's own token is good
		return Principal{}, mayfly.Errorf(mayfly.Denied, "the account was erased").WithHint("nobody acts for an erased account")
	case err != nil:
		return Principal{}, err
	}
	return Principal{User: user, Issuer: p.Issuer, Subject: p.Subject, Scopes: []Scope{User, Service}, For: true, Until: p.Until}, nil
}

// maxSubject bounds what an issuer may call somebody.
const maxSubject = 256

// goodSubject says whether a text can be a subject: some text, readable in a log.
func goodSubject(s string) bool {
	return s != "" && len(s) <= maxSubject && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}
