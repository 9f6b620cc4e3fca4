package httpapi

import (
	"errors"
	"slices"
	"strings"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/product/account"
)

// admit finds out who asks, and whether they may ask this, now.
func (c *call) admit() error {
	if c.route.open != nil {
		if err := c.route.open(); err != nil {
			return err // by a wrong clock not even a token is judged (L7)
		}
	}
	if err := plainPath(c.r); err != nil {
		return err
	}
	if err := plainQuery(c.r); err != nil {
		return err
	}
	c.from = c.proxies.clientOf(c.r)
	if err := c.identify(); err != nil {
		return c.guessed(err)
	}
	if err := c.allowed(); err != nil {
		return err
	}
	if err := c.within(); err != nil {
		return err
	}
	return c.acceptable()
}

// guessed takes a bad token from the address that it came from: trying tokens is
// limited like everything else (C3).
func (c *call) guessed(err error) error {
	if !errors.Is(err, mayfly.Unauthenticated) {
		return err
	}
	if limited := c.accounts.TakeRead(c.r.Context(), account.Principal{}, c.from, c.now); limited != nil {
		return limited
	}
	return err
}

// acceptable refuses a body that cannot be taken before any of it is read.
func (c *call) acceptable() error {
	if c.route.most == 0 {
		return nil
	}
	if c.r.ContentLength > c.route.most {
		return mayfly.Errorf(mayfly.TooLarge, "the body has %d bytes; %d are allowed", c.r.ContentLength, c.route.most).WithHint("send less")
	}
	if encoding := c.r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return mayfly.Errorf(mayfly.Unsupported, "a body in %.20q is not taken", encoding).WithHint("send it without Content-Encoding")
	}
	return nil
}

// presented says whether the request came with a token.
func (c *call) presented() bool { return len(c.r.Header.Values("Authorization")) > 0 }

// identify finds out who asks: without a token nobody in particular (C1).
func (c *call) identify() error {
	headers := c.r.Header["Authorization"]
	if len(headers) > 1 {
		return mayfly.Errorf(mayfly.Unauthenticated, "there are two Authorization headers").WithHint("send one")
	}
	if len(headers) == 1 {
		scheme, bearer, ok := strings.Cut(headers[0], " ")
		if !ok || !strings.EqualFold(scheme, "Bearer") {
			return mayfly.Errorf(mayfly.Unauthenticated, "the Authorization header has no Bearer token").WithHint("send Authorization: Bearer with a token")
		}
		who, err := c.accounts.Verify(c.r.Context(), strings.TrimSpace(bearer), c.now)
		if err != nil {
			return err
		}
		c.who = who
	}
	acts := c.r.Header["Mayfly-User"]
	switch {
	case len(acts) == 0:
		return nil
	case len(acts) > 1:
		return mayfly.Errorf(mayfly.Invalid, "there are two Mayfly-User headers").WithHint("send one")
	case len(headers) == 0:
		return mayfly.Errorf(mayfly.Unauthenticated, "Mayfly-User needs a service token").WithHint("send Authorization: Bearer with a token of scope service")
	}
	who, err := c.accounts.ActFor(c.r.Context(), c.who, acts[0])
	if err != nil {
		return err
	}
	c.who = who
	return nil
}

// allowed says whether the token opens this route.
func (c *call) allowed() error {
	switch needed := c.route.scopes; {
	case len(needed) == 0 || slices.ContainsFunc(needed, c.who.Has):
		return nil
	case !c.presented():
		return mayfly.Errorf(mayfly.Unauthenticated, "this needs a token")
	case c.who.Has(account.Service) && slices.Contains(needed, account.User):
		return mayfly.Errorf(mayfly.Denied, "the token names no user").WithHint("a service says in the header Mayfly-User for whom it acts")
	default:
		return mayfly.Errorf(mayfly.Denied, "the token has no scope for this").WithHint("it needs the scope " + orList(needed))
	}
}

func orList(scopes []account.Scope) string {
	words := make([]string, len(scopes))
	for i, s := range scopes {
		words[i] = string(s)
	}
	return strings.Join(words, " or ")
}

// within takes the request from the caller's rate (C3).
func (c *call) within() error {
	var err error
	switch c.route.limit {
	case writeLimit:
		err = c.accounts.TakeWrite(c.r.Context(), c.who, c.from, c.now)
	case readLimit:
		err = c.accounts.TakeRead(c.r.Context(), c.who, c.from, c.now)
	}
	if errors.Is(err, mayfly.Limited) {
		c.metrics.limited.WithLabelValues(string(c.route.limit)).Inc()
	}
	return err
}
