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

const (
	followingPath = "/v1/me/following"
	requestsPath  = "/v1/me/follow-requests"
	mutesPath     = "/v1/me/mutes"
	profilePath   = "/v1/me/profile"
)

// Follow makes the caller follow a user (UUID, ~subject or @handle), or ask to if the
// account is private: the answer says which.
func (c *Client) Follow(ctx context.Context, user string) (wire.Follow, error) {
	var f wire.Follow
	err := c.ask(ctx, call{method: http.MethodPut, path: followingPath + "/" + url.PathEscape(user)}, &f)
	return f, err
}

// Unfollow ends a follow, or takes a request back.
func (c *Client) Unfollow(ctx context.Context, user string) error {
	return c.relate(ctx, http.MethodDelete, followingPath, user)
}

// DropFollower removes a follower of the caller.
func (c *Client) DropFollower(ctx context.Context, user string) error {
	return c.relate(ctx, http.MethodDelete, "/v1/me/followers", user)
}

// MyFollowing returns the users whom the caller follows.
func (c *Client) MyFollowing(ctx context.Context) iter.Seq2[wire.Profile, error] {
	return c.profiles(ctx, followingPath)
}

// Following returns the users whom a user follows.
func (c *Client) Following(ctx context.Context, user string) iter.Seq2[wire.Profile, error] {
	return c.profiles(ctx, userPath(user)+"/following")
}

// Followers returns the followers of a user.
func (c *Client) Followers(ctx context.Context, user string) iter.Seq2[wire.Profile, error] {
	return c.profiles(ctx, userPath(user)+"/followers")
}

// FollowRequests returns the users who ask to follow the caller.
func (c *Client) FollowRequests(ctx context.Context) iter.Seq2[wire.Profile, error] {
	return c.profiles(ctx, requestsPath)
}

// AcceptFollow accepts a request to follow the caller.
func (c *Client) AcceptFollow(ctx context.Context, user string) error {
	return c.ask(ctx, call{method: http.MethodPost, path: requestsPath + "/" + url.PathEscape(user), again: true}, nil)
}

// DeclineFollow declines a request to follow the caller.
func (c *Client) DeclineFollow(ctx context.Context, user string) error {
	return c.relate(ctx, http.MethodDelete, requestsPath, user)
}

// Mute leaves posts or reposts of a user out of the caller's lists.
func (c *Client) Mute(ctx context.Context, user string, m wire.Mute) error {
	in, err := jsonBody(m)
	if err != nil {
		return err
	}
	return c.ask(ctx, call{method: http.MethodPut, path: mutesPath + "/" + url.PathEscape(user), body: in}, nil)
}

// Unmute ends what Mute did.
func (c *Client) Unmute(ctx context.Context, user string) error {
	return c.relate(ctx, http.MethodDelete, mutesPath, user)
}

// Mutes returns the users whom the caller mutes.
func (c *Client) Mutes(ctx context.Context) iter.Seq2[wire.Muted, error] {
	return pages(nil, func(q url.Values) ([]wire.Muted, string, error) {
		var page wire.Mutes
		err := c.ask(ctx, call{method: http.MethodGet, path: mutesPath, query: q}, &page)
		return page.Users, page.Next, err
	})
}

// Profile returns the profile of a user (UUID, ~subject or @handle).
func (c *Client) Profile(ctx context.Context, user string) (wire.Profile, error) {
	var p wire.Profile
	err := c.ask(ctx, call{method: http.MethodGet, path: userPath(user)}, &p)
	return p, err
}

// MyProfile returns the caller's profile.
func (c *Client) MyProfile(ctx context.Context) (wire.Profile, error) {
	var p wire.Profile
	err := c.ask(ctx, call{method: http.MethodGet, path: profilePath}, &p)
	return p, err
}

// ChangeProfile changes the caller's profile and returns it.
func (c *Client) ChangeProfile(ctx context.Context, change wire.ProfileChange) (wire.Profile, error) {
	var p wire.Profile
	in, err := jsonBody(change)
	if err != nil {
		return p, err
	}
	err = c.ask(ctx, call{method: http.MethodPatch, path: profilePath, body: in, again: true}, &p)
	return p, err
}

// SetAvatar sends an image, of which the server makes the caller's avatar, and returns
// the profile.
func (c *Client) SetAvatar(ctx context.Context, image Source) (wire.Profile, error) {
	var p wire.Profile
	err := c.ask(ctx, call{method: http.MethodPut, path: "/v1/me/avatar", body: func() (body, error) {
		r, err := image.open(nil)
		return body{r, "application/octet-stream", image.Size}, err
	}}, &p)
	return p, err
}

func (c *Client) profiles(ctx context.Context, path string) iter.Seq2[wire.Profile, error] {
	return pages(nil, func(q url.Values) ([]wire.Profile, string, error) {
		var page wire.Profiles
		err := c.ask(ctx, call{method: http.MethodGet, path: path, query: q}, &page)
		return page.Users, page.Next, err
	})
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
