package httpapi

import (
	"net/http"

	"github.com/mayflyhq/mayfly/api/wire"
)

// viewStory is POST /v1/stories/{id}/view.
func viewStory(c *call) error {
	id, err := c.item()
	if err != nil {
		return err
	}
	if err := c.stories.View(c.r.Context(), id, c.who.Viewer(), c.now); err != nil {
		return err
	}
	c.metrics.views.Inc()
	return c.noContent()
}

// listViewers is GET /v1/stories/{id}/viewers.
func listViewers(c *call) error {
	id, err := c.item()
	if err != nil {
		return err
	}
	cursor, limit, err := c.page()
	if err != nil {
		return err
	}
	count, views, next, err := c.stories.Viewers(c.r.Context(), id, c.who.Viewer(), cursor, limit, c.now)
	if err != nil {
		return err
	}
	out := wire.Viewers{Count: count, Viewers: make([]wire.Viewer, len(views)), Next: next}
	for i, v := range views {
		out.Viewers[i] = wire.Viewer{User: v.User, At: v.At}
	}
	return c.json(http.StatusOK, out)
}
