package httpapi

import (
	"errors"
	"net/http"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/product/account"
)

// getToken is POST /v1/token.
func getToken(c *call) error {
	var in wire.TokenRequest
	if err := c.read(&in); err != nil {
		return err
	}
	switch {
	case in.RefreshToken != "" && in.User != "":
		return mayfly.Errorf(mayfly.Invalid, "a refresh token and a user at once").WithHint("send one of them")
	case in.RefreshToken != "":
		access, next, user, err := c.accounts.Refresh(c.r.Context(), in.RefreshToken, c.now)
		if err != nil {
			return err
		}
		return c.tokens(access, next, user)
	case in.User == "":
		return mayfly.Errorf(mayfly.Invalid, "neither a refresh token nor a user").WithHint("send refresh_token; a service may name a user")
	case !c.presented():
		return mayfly.Errorf(mayfly.Unauthenticated, "only a service gets tokens for a user")
	case !c.who.Has(account.Service) || c.who.For:
		return mayfly.Errorf(mayfly.Denied, "only a service gets tokens for a user").WithHint("send a token of the scope service, without Mayfly-User")
	}
	user, err := c.accounts.UserNamed(in.User)
	if err != nil {
		return err
	}
	access, refresh, err := c.accounts.Issue(c.r.Context(), user, "", c.now)
	if errors.Is(err, mayfly.Unauthenticated) { // the service is known; its user is not any more
		return mayfly.Errorf(mayfly.Denied, "the account is erased").WithHint("it stays erased: users that come back need another subject")
	}
	if err != nil {
		return err
	}
	return c.tokens(access, refresh, user)
}

func (c *call) tokens(access, refresh account.Token, user mayfly.UserID) error {
	return c.json(http.StatusOK, wire.Tokens{
		AccessToken: string(access), TokenType: "Bearer", ExpiresIn: int(c.o.Access / time.Second), RefreshToken: string(refresh), User: user,
	})
}
