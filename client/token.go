package client

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
)

// TokenFor asks, as a service, for tokens of a user: UUID or ~subject.
func (c *Client) TokenFor(ctx context.Context, user string) (wire.Tokens, error) {
	var tokens wire.Tokens
	err := c.askWith(ctx, call{method: http.MethodPost, path: "/v1/token"}, wire.TokenRequest{User: user}, &tokens)
	return tokens, err
}

// RefreshTokens asks for the pair that follows a refresh token. The server takes
// the same one again for ten seconds, so that an answer can be lost; after that
// it ends all of its family (C1), and is not sent.
func (c *Client) RefreshTokens(ctx context.Context, refresh string) (wire.Tokens, error) {
	ctx, stop := context.WithTimeout(ctx, longestRenewal)
	defer stop()
	var tokens wire.Tokens
	err := c.askWith(ctx, call{method: http.MethodPost, path: "/v1/token", again: true, anonymous: true}, wire.TokenRequest{RefreshToken: refresh}, &tokens)
	return tokens, err
}

const longestRenewal = 8 * time.Second

func (c *Client) currentToken() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.token
}

// renew gets a new access token in place of old, which was refused. Calls that
// were refused at once get one together.
func (c *Client) renew(ctx context.Context, old string) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.token != old {
		return true, nil // somebody else has
	}
	if c.refresh == "" {
		return false, nil
	}
	// Who gives up waiting must not lose the pair: the old refresh token is used up.
	tokens, err := c.RefreshTokens(context.WithoutCancel(ctx), c.refresh)
	if err != nil {
		if errors.Is(err, mayfly.Unauthenticated) {
			c.refresh = "" // it has run out, or was used by somebody else
		}
		return false, err
	}
	c.token, c.refresh = tokens.AccessToken, tokens.RefreshToken
	if c.o.Renewed != nil {
		c.o.Renewed(tokens)
	}
	return true, nil
}
