package client

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
)

// TokenFor gets tokens for a user, a UUID or ~subject. It is for services.
func (c *Client) TokenFor(ctx context.Context, user string) (wire.Tokens, error) {
	var tokens wire.Tokens
	err := c.askWith(ctx, call{method: http.MethodPost, path: "/v1/token"}, wire.TokenRequest{User: user}, &tokens)
	return tokens, err
}

// RefreshTokens exchanges a refresh token for a new pair. The server accepts the
// same one again for ten seconds, in case its response was lost; after that it
// would revoke the whole family, so retries stop before (C1).
func (c *Client) RefreshTokens(ctx context.Context, refresh string) (wire.Tokens, error) {
	ctx, stop := context.WithTimeout(ctx, longestRenewal)
	defer stop()
	var tokens wire.Tokens
	err := c.askWith(ctx, call{method: http.MethodPost, path: "/v1/token", again: true, anonymous: true}, wire.TokenRequest{RefreshToken: refresh}, &tokens)
	return tokens, err
}

// SignOut revokes a refresh token and all tokens that replace it.
func (c *Client) SignOut(ctx context.Context, refresh string) error {
	return c.askWith(ctx, call{method: http.MethodPost, path: "/v1/token/revoke", again: true, anonymous: true}, wire.Revocation{RefreshToken: refresh}, nil)
}

// Revoke revokes an access token: the server refuses it from now on.
func (c *Client) Revoke(ctx context.Context, access string) error {
	return c.askWith(ctx, call{method: http.MethodPost, path: "/v1/token/revoke", again: true, anonymous: true}, wire.Revocation{AccessToken: access}, nil)
}

// longestRenewal is less than the ten seconds in which the server accepts a
// refresh token again.
const longestRenewal = 8 * time.Second

func (c *Client) currentToken() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.token
}

// renew replaces old, an access token that the server refused. Concurrent calls
// that were refused share one renewal. It returns false if there is no refresh
// token.
func (c *Client) renew(ctx context.Context, old string) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.token != old {
		return true, nil // another call has renewed it
	}
	if c.refresh == "" {
		return false, nil
	}
	// A canceled call must not lose the new pair: the old refresh token is used up.
	tokens, err := c.RefreshTokens(context.WithoutCancel(ctx), c.refresh)
	if err != nil {
		if errors.Is(err, mayfly.Unauthenticated) {
			c.refresh = "" // it has expired, or was used elsewhere
		}
		return false, err
	}
	c.token, c.refresh = tokens.AccessToken, tokens.RefreshToken
	if c.o.Renewed != nil {
		c.o.Renewed(tokens)
	}
	return true, nil
}
