package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
)

const (
	friendsPath = "/v1/me/close-friends"
	blocksPath  = "/v1/me/blocks"
)

// CloseFriends returns the users who may see the caller's stories for close
// friends.
func (c *Client) CloseFriends(ctx context.Context) iter.Seq2[mayfly.UserID, error] {
	return c.users(ctx, friendsPath)
}

// AddCloseFriend makes a user (UUID or ~subject) a close friend.
func (c *Client) AddCloseFriend(ctx context.Context, user string) error {
	return c.relate(ctx, http.MethodPut, friendsPath, user)
}

// RemoveCloseFriend removes a user from the close friends.
func (c *Client) RemoveCloseFriend(ctx context.Context, user string) error {
	return c.relate(ctx, http.MethodDelete, friendsPath, user)
}

// Blocks returns the users whom the caller blocks: they cannot see the caller's
// stories.
func (c *Client) Blocks(ctx context.Context) iter.Seq2[mayfly.UserID, error] {
	return c.users(ctx, blocksPath)
}

// Block blocks a user.
func (c *Client) Block(ctx context.Context, user string) error {
	return c.relate(ctx, http.MethodPut, blocksPath, user)
}

// Unblock unblocks a user.
func (c *Client) Unblock(ctx context.Context, user string) error {
	return c.relate(ctx, http.MethodDelete, blocksPath, user)
}

// AddFollower records that follower follows user. It is for services.
func (c *Client) AddFollower(ctx context.Context, user, follower string) error {
	return c.relate(ctx, http.MethodPut, userPath(user)+"/followers", follower)
}

// RemoveFollower records that follower no longer follows user. It is for services.
func (c *Client) RemoveFollower(ctx context.Context, user, follower string) error {
	return c.relate(ctx, http.MethodDelete, userPath(user)+"/followers", follower)
}

func (c *Client) relate(ctx context.Context, method, path, user string) error {
	return c.ask(ctx, call{method: method, path: path + "/" + url.PathEscape(user)}, nil)
}

func (c *Client) users(ctx context.Context, path string) iter.Seq2[mayfly.UserID, error] {
	return pages(nil, func(q url.Values) ([]mayfly.UserID, string, error) {
		var page wire.Users
		err := c.ask(ctx, call{method: http.MethodGet, path: path, query: q}, &page)
		return page.Users, page.Next, err
	})
}
