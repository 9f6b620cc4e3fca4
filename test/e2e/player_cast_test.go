package e2e

import (
	"fmt"
	"net/http"

	"github.com/mayflyhq/mayfly"
)

// issuer is who the tokens of both stages are from.
const issuer = "mayfly"

// subject returns the name of an actor of this script in the API: every script
// has people of its own.
func (p *player) subject(name string) string { return p.script.name + "." + name }

func (p *player) user(name string) mayfly.UserID {
	return mayfly.HomeUserOf(issuer, p.subject(name))
}

// nameOf is who a user is; the user itself if he is not of this script.
func (p *player) nameOf(user mayfly.UserID) string {
	for _, name := range actors() {
		if p.user(name) == user {
			return name
		}
	}
	return user.String()
}

// credentials are the headers that say who asks.
func (p *player) credentials(a actor) (http.Header, error) {
	h := http.Header{}
	if a.name == "anonymous" {
		return h, nil
	}
	scope, user := "user", p.subject(a.name)
	switch a.name {
	case "moderator":
		scope = "moderator"
	case "service", "admin":
		scope, user = a.name, ""
	}
	bearer, err := p.bearer(user, scope)
	if err != nil {
		return nil, fmt.Errorf("a token for %s: %w", a.name, err)
	}
	h.Set("Authorization", "Bearer "+bearer)
	if a.acts != "" {
		h.Set("Mayfly-User", p.user(a.acts).String())
	}
	return h, nil
}

// become makes the actor of a line what its brackets say he is: to the author of
// the story that it is about, to ana otherwise.
func (p *player) become(l line) error {
	if l.who.role == "" || l.who.role == "stranger" {
		return nil
	}
	author := "ana"
	if s, err := p.find(l.action.story); err == nil && l.action.story != "" {
		author = s.author
	}
	by, method, target := actor{name: author}, http.MethodPut, ""
	switch who := p.user(l.who.name); l.who.role {
	case "follower":
		by, target = actor{name: "service"}, fmt.Sprintf("/v1/users/%s/followers/%s", p.user(author), who)
	case "friend":
		target = fmt.Sprintf("/v1/me/close-friends/%s", who)
	case "blocked":
		target = fmt.Sprintf("/v1/me/blocks/%s", who)
	}
	header, err := p.credentials(by)
	if err != nil {
		return err
	}
	a, err := p.ask(request{method: method, target: target, header: header})
	if err != nil {
		return err
	}
	if a.status != http.StatusNoContent {
		return fmt.Errorf("make %s a %s: %d %s", l.who.name, l.who.role, a.status, excerpt(a.body))
	}
	return nil
}
