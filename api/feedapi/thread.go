package feedapi

import (
	"net/http"

	"github.com/mayflyhq/mayfly/api/httpapi"
	"github.com/mayflyhq/mayfly/api/wire"
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
	return deliver(c, func() (any, error) {
		t, err := h.posts.Thread(c.Context(), id, c.Caller.Viewer(), cursor, limit, c.Now)
		if err != nil {
			return nil, err
		}
		return wire.Thread{Post: h.show(c, t.Post), Ancestors: h.showAll(c, t.Ancestors), Replies: h.showAll(c, t.Replies), Next: t.Next}, nil
	})
}
