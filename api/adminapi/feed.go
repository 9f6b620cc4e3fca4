package adminapi

import (
	"net/http"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/httpapi"
	"github.com/mayflyhq/mayfly/api/wire"
)

// importBody is the largest part of an import.
const importBody = 4 << 20

func (h *handlers) feedRoutes() []httpapi.Route {
	routes := []httpapi.Route{
		{
			Method: "GET", Pattern: "/v1/feed/check", ID: "checkFeed", Summary: "Compare a part of the follow edges with their other direction, and of the counts with their rows",
			Params: httpapi.Paging()[:1], Problems: []int{http.StatusUnsupportedMediaType},
			Answers: httpapi.Answers[wire.FeedCheck](http.StatusOK, "What differs in this part. On a server in use a change that is under way is one, too."), Handle: h.checkFeed,
		},
		{
			Method: "POST", Pattern: "/v1/feed/import", ID: "importFeed", Summary: "Have follow edges and posts of another product move in", MaxBody: importBody,
			About: "What moves in again changes nothing. What is refused says why, and the rest moves in.", Body: httpapi.JSONOf[wire.FeedImport](),
			Problems: []int{http.StatusUnsupportedMediaType, http.StatusInsufficientStorage},
			Answers:  httpapi.Answers[wire.FeedImported](http.StatusOK, "What became of each."),
			Example:  `-H 'Content-Type: application/json' -d '{"edges":[{"reader":"~ana","author":"~ben"}],"reason":"…"}'`, Handle: h.importFeed,
		},
	}
	for i := range routes {
		routes[i].Tag, routes[i].Scopes = "feed", admin()
	}
	return append(routes, httpapi.Route{
		Method: "GET", Pattern: "/v1/users/{user}/references", ID: "findReferences", Tag: "support", Scopes: admin(),
		Summary: "Look for everything that is a user's or names the user", About: "It reads the whole store. After an erasure there is nothing.",
		Answers: httpapi.Answers[wire.References](http.StatusOK, "What there is."), Handle: h.references,
	})
}

// checkFeed is GET /v1/feed/check.
func (h *handlers) checkFeed(c *httpapi.Call) error {
	cursor, _, err := c.Page()
	if err != nil {
		return err
	}
	out, err := h.operator.Operations().CheckFeed(c.Context(), cursor, c.Now)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, out)
}

// references is GET /v1/users/{user}/references.
func (h *handlers) references(c *httpapi.Call) error {
	user, err := c.User("user")
	if err != nil {
		return err
	}
	out, err := h.operator.Operations().References(c.Context(), user)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, out)
}

// The most that one request moves in.
const (
	maxEdges = 1000
	maxPosts = 200
)

// importFeed is POST /v1/feed/import.
func (h *handlers) importFeed(c *httpapi.Call) error {
	var in wire.FeedImport
	if err := c.ReadJSON(&in); err != nil {
		return err
	}
	if err := checkReason(in.Reason); err != nil {
		return err
	}
	if len(in.Edges)+len(in.Posts) == 0 || len(in.Edges) > maxEdges || len(in.Posts) > maxPosts {
		return mayfly.Errorf(mayfly.Invalid, "%d edges and %d posts", len(in.Edges), len(in.Posts)).WithHint("send 1 to 1,000 edges or 1 to 200 posts, and the others in another request")
	}
	if _, err := confirmedNow(c); err != nil {
		return err
	}
	out, err := h.operator.Operations().ImportFeed(c.Context(), in, c.Caller.Actor(), func() mayfly.Instant { return c.ReadClock().Steady })
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, out)
}
