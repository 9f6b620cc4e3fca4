package feedapi

import (
	"errors"
	"net/http"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/httpapi"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/product/feed"
)

func (h *handlers) threadRoute() httpapi.Route {
	return httpapi.Route{
		Method: "GET", Pattern: "/v1/posts/{id}/thread", ID: "getThread", Limit: httpapi.ReadLimit, Problems: []int{http.StatusNotFound, http.StatusGone},
		Summary: "Read the thread around a post", About: "What it replies to, and the replies to it. Each post of the thread is shown or left out by itself: nothing tells whether one that is left out is deleted, over or not for you.",
		Params: append(httpapi.Paging(), httpapi.IfNoneMatch()), Answers: httpapi.ConditionalAnswers[wire.Thread]("A page of the thread."), Handle: h.thread,
	}
}

// thread is GET /v1/posts/{id}/thread.
func (h *handlers) thread(c *httpapi.Call) error {
	id, err := c.ItemID("id")
	if err != nil {
		return err
	}
	cursor, limit, err := c.Page()
	if err != nil {
		return err
	}
	for range listTries {
		t, err := h.posts.Thread(c.Context(), id, c.Caller.Viewer(), cursor, limit, c.Now)
		if err != nil {
			return err
		}
		out := wire.Thread{Post: h.show(c, t.Post), Ancestors: h.showAll(c, t.Ancestors), Replies: h.showAll(c, t.Replies), Next: t.Next}
		if err := c.Deliver(http.StatusOK, out); !errors.Is(err, mayfly.Gone) {
			return err
		}
		c.Restart()
	}
	return mayfly.Errorf(mayfly.Unavailable, "the thread changes faster than it is read").WithHint("try again")
}

func (h *handlers) showAll(c *httpapi.Call, posts []feed.Post) []wire.Post {
	all := make([]wire.Post, len(posts))
	for i, p := range posts {
		all[i] = h.show(c, p)
	}
	return all
}
