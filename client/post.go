package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
)

// CreatePost publishes a post with media, which are streamed one after the other, or
// with none, or with those of the upload that it names. For key see Publication.
func (c *Client) CreatePost(ctx context.Context, p wire.NewPost, key string, media ...Source) (wire.Post, error) {
	var post wire.Post
	what := call{method: http.MethodPost, path: "/v1/posts", key: key}
	if len(media) == 0 {
		err := c.askWith(ctx, what, p, &post)
		return post, err
	}
	fields, err := json.Marshal(p)
	if err != nil {
		return post, err
	}
	what.big, what.body = true, mediaForm{"post", fields, media, nil}.body
	err = c.ask(ctx, what, &post)
	return post, err
}

// Post reads a post.
func (c *Client) Post(ctx context.Context, id mayfly.ID) (wire.Post, error) {
	var post wire.Post
	err := c.ask(ctx, call{method: http.MethodGet, path: "/v1/posts/" + id.String()}, &post)
	return post, err
}

// DeletePost deletes an own post.
func (c *Client) DeletePost(ctx context.Context, id mayfly.ID) error {
	return c.ask(ctx, call{method: http.MethodDelete, path: "/v1/posts/" + id.String()}, nil)
}

// Like likes a post, or takes that back.
func (c *Client) Like(ctx context.Context, id mayfly.ID, likes bool) error {
	method := http.MethodPut
	if !likes {
		method = http.MethodDelete
	}
	return c.ask(ctx, call{method: method, path: "/v1/posts/" + id.String() + "/like"}, nil)
}

// Repost reposts a post, once.
func (c *Client) Repost(ctx context.Context, id mayfly.ID) (wire.Post, error) {
	var post wire.Post
	err := c.ask(ctx, call{method: http.MethodPut, path: "/v1/posts/" + id.String() + "/repost"}, &post)
	return post, err
}

// Unrepost takes a repost back.
func (c *Client) Unrepost(ctx context.Context, id mayfly.ID) error {
	return c.ask(ctx, call{method: http.MethodDelete, path: "/v1/posts/" + id.String() + "/repost"}, nil)
}

// PostsOf returns the posts of a user (UUID or ~subject) that the caller may see, newest
// first.
func (c *Client) PostsOf(ctx context.Context, user string) iter.Seq2[wire.Post, error] {
	return pages(nil, func(q url.Values) ([]wire.Post, string, error) {
		var page wire.Posts
		err := c.ask(ctx, call{method: http.MethodGet, path: "/v1/users/" + url.PathEscape(user) + "/posts", query: q}, &page)
		return page.Posts, page.Next, err
	})
}

// Thread returns the replies to a post that the caller may see, oldest first. With the
// first of them, or when there is none, top has the post and what it replies to; top may
// be nil.
func (c *Client) Thread(ctx context.Context, id mayfly.ID, top *wire.Thread) iter.Seq2[wire.Post, error] {
	return pages(nil, func(q url.Values) ([]wire.Post, string, error) {
		var page wire.Thread
		err := c.ask(ctx, call{method: http.MethodGet, path: "/v1/posts/" + id.String() + "/thread", query: q}, &page)
		if top != nil && err == nil && !q.Has("cursor") {
			top.Post, top.Ancestors = page.Post, page.Ancestors
		}
		return page.Replies, page.Next, err
	})
}

// Home reads a page of the caller's home, newest first; cursor is next of the page
// before, or empty.
func (c *Client) Home(ctx context.Context, cursor string, limit int) (wire.Home, error) {
	q := url.Values{}
	if cursor != "" {
		q.Set("cursor", cursor)
	}
	if limit > 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	var page wire.Home
	err := c.ask(ctx, call{method: http.MethodGet, path: "/v1/me/home", query: q}, &page)
	return page, err
}

// Likers returns who likes a post that the caller may see.
func (c *Client) Likers(ctx context.Context, id mayfly.ID) iter.Seq2[wire.Liker, error] {
	return pages(nil, func(q url.Values) ([]wire.Liker, string, error) {
		var page wire.Likers
		err := c.ask(ctx, call{method: http.MethodGet, path: "/v1/posts/" + id.String() + "/likes", query: q}, &page)
		return page.Users, page.Next, err
	})
}
