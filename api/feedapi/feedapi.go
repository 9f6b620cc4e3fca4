// Package feedapi serves posts over HTTP.
//
// It decides nothing about visibility: every post comes from product/feed, which asks
// the gate.
package feedapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/httpapi"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/engine/media"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/product/feed"
	"github.com/mayflyhq/mayfly/product/feed/text"
)

// Product is the name of the product in metrics.
const Product = "feed"

// Options are the settings of the routes. Posts and Key are required.
type Options struct {
	Posts    *feed.Feed
	LikeRate account.Rate // of each of the routes that set or take back a like or repost

	Key             *account.Key  // signs media URLs
	URLs            time.Duration // how long a media URL is valid; default 1 min
	Limits          media.Limits  // of one medium
	ThumbnailPixels int64         // the largest image of which smaller pictures are made; 0: any
}

type handlers struct {
	o     Options
	posts *feed.Feed
}

// Routes returns the routes of posts.
func Routes(o Options) []httpapi.Route {
	if o.URLs == 0 {
		o.URLs = time.Minute
	}
	h := &handlers{o, o.Posts}
	user := []account.Scope{account.User}
	absent := []int{http.StatusNotFound, http.StatusGone}
	made := func(about string) []httpapi.Answer {
		content, headers := httpapi.JSONOf[wire.Post](), []string{"Location", "ETag"}
		return []httpapi.Answer{
			{Status: http.StatusCreated, About: about + ", and durable.", Content: content, Headers: headers},
			{Status: http.StatusOK, About: "It was published before.", Content: content, Headers: headers},
		}
	}
	done := func(about string) []httpapi.Answer {
		return []httpapi.Answer{{Status: http.StatusNoContent, About: about + " The next read shows it."}}
	}
	reaction := func(method, pattern, id, summary string, answers []httpapi.Answer, problems []int, handle func(*httpapi.Call) error) httpapi.Route {
		return httpapi.Route{
			Method: method, Pattern: pattern, ID: id, Scopes: user, Limit: httpapi.WriteLimit, Rate: o.LikeRate, Summary: summary,
			Answers: answers, Problems: problems, Handle: handle,
		}
	}
	routes := []httpapi.Route{
		{
			Method: "POST", Pattern: "/v1/posts", ID: "createPost", Scopes: user, Limit: httpapi.WriteLimit, MaxBody: h.maxBody(),
			Summary: "Publish a post", About: "Up to 4 media are sent with the post (multipart), or were put to an upload before (JSON). A request with the same Idempotency-Key returns the same post. What you may not see cannot be replied to or quoted: it is answered like a post that does not exist.",
			Params: []httpapi.Param{httpapi.IdempotencyKey()}, Problems: append([]int{http.StatusConflict, http.StatusInsufficientStorage}, absent...),
			Body: newPost(), Answers: append(made("The post is published"), httpapi.Answer{
				Status: http.StatusAccepted, About: "It is durable, and held until a moderator releases it (`feed.hold`): you do not see it either.", Content: httpapi.JSONOf[wire.Post](), Headers: []string{"Location", "ETag"},
			}),
			Example: `-H 'Content-Type: application/json' -d '{"text":"hello #sea"}'`, Handle: h.create,
		},
		{
			Method: "GET", Pattern: "/v1/posts/{id}", ID: "getPost", Limit: httpapi.ReadLimit, Problems: absent,
			Summary: "Read a post", About: "A caller who may not see it gets 404 before its deadline and 410 after it, in the same bytes as for a post that never existed.",
			Params: []httpapi.Param{httpapi.IfNoneMatch()}, Answers: httpapi.ConditionalAnswers[wire.Post]("The post."), Handle: h.get,
		},
		{
			Method: "DELETE", Pattern: "/v1/posts/{id}", ID: "deletePost", Scopes: user, Limit: httpapi.WriteLimit, Problems: absent,
			Summary: "Delete an own post",
			Answers: []httpapi.Answer{{Status: http.StatusNoContent, About: "No route shows it any more. Deleting it again returns the same while its tombstone is kept (`ends.tombstone`)."}}, Handle: h.remove,
		},
		{
			Method: "GET", Pattern: "/v1/posts/{id}/likes", ID: "listLikes", Limit: httpapi.ReadLimit, Problems: absent,
			Summary: "List who likes a post, in no particular order", Params: httpapi.Paging(), Answers: httpapi.Answers[wire.Likers](http.StatusOK, "A page of users."), Handle: h.likes,
		},
		{
			Method: "GET", Pattern: "/v1/users/{user}/posts", ID: "listPosts", Limit: httpapi.ReadLimit,
			Summary: "List a user's posts that I may see, newest first", Params: append(httpapi.Paging(), httpapi.IfNoneMatch()), Answers: httpapi.ConditionalAnswers[wire.Posts]("A page of posts."), Handle: h.byAuthor,
		},
		{
			Method: "GET", Pattern: "/v1/me/home", ID: "getMyHome", Scopes: user, Limit: httpapi.ReadLimit,
			Summary: "Read my home: what those whom I follow have posted and reposted, newest first",
			About:   "Replies to others are not in it; an author's own threads are. Without what I mute or block. Pages go on from the last post: none comes twice, and one that is there all the time is on one of them.",
			Params:  append(httpapi.Paging(), httpapi.IfNoneMatch()), Answers: httpapi.ConditionalAnswers[wire.Home]("A page of posts, with their authors."), Handle: h.home,
		},
		reaction("PUT", "/v1/posts/{id}/like", "likePost", "Like a post", done("You like it."), absent, h.like),
		reaction("DELETE", "/v1/posts/{id}/like", "unlikePost", "Take a like back", done("You do not like it."), nil, h.unlike),
		reaction("PUT", "/v1/posts/{id}/repost", "repostPost", "Repost a post", made("It is reposted"), append([]int{http.StatusConflict, http.StatusInsufficientStorage}, absent...), h.repost),
		reaction("DELETE", "/v1/posts/{id}/repost", "unrepostPost", "Take a repost back", done("No list shows it."), nil, h.unrepost),
	}
	routes = append(routes, h.threadRoute())
	for i := range routes {
		routes[i].Product, routes[i].Tag = Product, "posts"
	}
	return routes
}

// steady returns the function by which a post is given its birth.
func steady(c *httpapi.Call) func() mayfly.Instant {
	return func() mayfly.Instant { return c.ReadClock().Steady }
}

// published answers with a post that was published now, or before.
func (h *handlers) published(c *httpapi.Call, p feed.Post) error {
	c.Now = c.ReadClock().Now // the post was born after the request arrived
	status := http.StatusCreated
	switch {
	case p.Item.Held:
		status = http.StatusAccepted
	case p.Again:
		status = http.StatusOK
	}
	if !p.Again {
		c.CountBirth()
	}
	c.Header().Set("Location", c.URL("/v1/posts/"+p.Item.ID.String()))
	out := h.show(c, p)
	out.Held = p.Item.Held
	return c.Deliver(status, out)
}

// get is GET /v1/posts/{id}.
func (h *handlers) get(c *httpapi.Call) error {
	id, err := c.ItemID("id")
	if err != nil {
		return err
	}
	p, err := h.posts.Open(c.Context(), id, c.Caller.Viewer(), c.Now)
	c.CountVerdict("serve", err)
	if err != nil {
		return err
	}
	return c.Deliver(http.StatusOK, h.show(c, p))
}

// remove is DELETE /v1/posts/{id}.
func (h *handlers) remove(c *httpapi.Call) error {
	return h.with(c, h.posts.Delete)
}

// with does something of the caller's with a post.
func (h *handlers) with(c *httpapi.Call, do func(ctx context.Context, id mayfly.ID, user mayfly.UserID, now mayfly.Instant) error) error {
	id, err := c.ItemID("id")
	if err != nil {
		return err
	}
	if err := do(c.Context(), id, c.Caller.User, c.ReadClock().Steady); err != nil {
		return err
	}
	return c.NoContent()
}

func (h *handlers) like(c *httpapi.Call) error     { return h.with(c, h.posts.Like) }
func (h *handlers) unlike(c *httpapi.Call) error   { return h.with(c, h.posts.Unlike) }
func (h *handlers) unrepost(c *httpapi.Call) error { return h.with(c, h.posts.Unrepost) }

// repost is PUT /v1/posts/{id}/repost.
func (h *handlers) repost(c *httpapi.Call) error {
	id, err := c.ItemID("id")
	if err != nil {
		return err
	}
	p, err := h.posts.Repost(c.Context(), id, c.Caller.User, steady(c))
	if err != nil {
		return err
	}
	return h.published(c, p)
}

// likes is GET /v1/posts/{id}/likes.
func (h *handlers) likes(c *httpapi.Call) error {
	id, err := c.ItemID("id")
	if err != nil {
		return err
	}
	cursor, limit, err := c.Page()
	if err != nil {
		return err
	}
	all, next, err := h.posts.LikedBy(c.Context(), id, c.Caller.Viewer(), cursor, limit, c.Now)
	if err != nil {
		return err
	}
	out := wire.Likers{Users: make([]wire.Liker, len(all)), Next: next}
	for i, l := range all {
		out.Users[i] = wire.Liker{User: l.User, At: l.At}
	}
	if id.Expires() && !c.Caller.Viewer().Moderator() {
		c.Carries(id.Deadline())
	}
	return c.Deliver(http.StatusOK, out)
}

// listTries is how often a list is read again because a post of it has ended meanwhile.
const listTries = 10

// byAuthor is GET /v1/users/{user}/posts.
func (h *handlers) byAuthor(c *httpapi.Call) error {
	user, err := c.User("user")
	if err != nil {
		return err
	}
	cursor, limit, err := c.Page()
	if err != nil {
		return err
	}
	return deliver(c, func() (any, error) {
		page, err := h.posts.ByAuthor(c.Context(), user, c.Caller.Viewer(), cursor, limit, c.Now)
		return wire.Posts{Posts: h.showAll(c, page.Posts), Next: page.Next}, err
	})
}

// home is GET /v1/me/home.
func (h *handlers) home(c *httpapi.Call) error {
	cursor, limit, err := c.Page()
	if err != nil {
		return err
	}
	return deliver(c, func() (any, error) {
		home, err := h.posts.Home(c.Context(), c.Caller.User, cursor, limit, c.Now)
		out := wire.Home{Posts: h.showAll(c, home.Posts), Authors: make([]wire.Author, len(home.Authors)), Next: home.Next, Partial: home.Partial}
		for i, p := range home.Authors {
			out.Authors[i] = wire.Author{User: p.User, Handle: p.Handle, Name: p.Name, Avatar: c.AvatarURL(p)}
		}
		return out, err
	})
}

// deliver sends a list, which is read again when a post of it has ended meanwhile.
func deliver(c *httpapi.Call, read func() (any, error)) error {
	for range listTries {
		out, err := read()
		if err != nil {
			return err
		}
		if err := c.Deliver(http.StatusOK, out); !errors.Is(err, mayfly.Gone) {
			return err
		}
		c.Restart()
	}
	return mayfly.Errorf(mayfly.Unavailable, "the list changes faster than it is read").WithHint("try again")
}

func (h *handlers) showAll(c *httpapi.Call, posts []feed.Post) []wire.Post {
	all := make([]wire.Post, len(posts))
	for i, p := range posts {
		all[i] = h.show(c, p)
	}
	return all
}

// show returns a post as the viewer sees it, and notes when the first of what the
// answer contains ends: a post of fate purge ends for its author too.
func (h *handlers) show(c *httpapi.Call, p feed.Post) wire.Post {
	moderator := c.Caller.Viewer().Moderator()
	out := wire.Post{
		ID: p.Item.ID, Short: p.Item.ID.Short(), Kind: p.Kind.String(), Author: p.Item.Owner, Text: p.Body.Text,
		Replies: p.Replies, Likes: p.Likes, Reposts: p.Reposts, Liked: p.Liked, Reposted: p.Reposted,
		Media: h.showMedia(c, p), BornAt: p.Item.ID.Birth(), Lifetime: p.Item.ID.Lifetime(), Held: p.Item.Held && moderator,
	}
	for _, e := range p.Entities {
		kind := map[text.Kind]string{text.Mention: "mention", text.Hashtag: "hashtag", text.Link: "link"}[e.Kind]
		out.Entities = append(out.Entities, wire.PostEntity{Kind: kind, Start: e.Start, End: e.End, Name: e.Name(p.Body.Text)})
	}
	if !p.About.IsZero() {
		out.About = &p.About
	}
	if !p.Root.IsZero() {
		out.Root = &p.Root
	}
	if p.Item.ID.Expires() {
		end := p.Item.ID.Deadline()
		out.ExpiresAt = &end
		if !p.Item.Held {
			c.Carries(end)
		}
	}
	if p.Of != nil {
		of := h.show(c, *p.Of)
		out.Of = &of
	}
	return out
}
