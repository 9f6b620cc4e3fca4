package httpapi

import (
	"net/http"

	"github.com/mayflyhq/mayfly/product/story"
)

// openStory is GET /v1/stories/{id}.
func openStory(c *call) error {
	id, err := c.item()
	if err != nil {
		return err
	}
	viewer := c.who.Viewer()
	s, err := c.stories.Open(c.r.Context(), id, viewer, c.now)
	c.metrics.verdict(verdictOf(s), err)
	if err != nil {
		return err
	}
	return c.deliver(http.StatusOK, c.show(s, viewer))
}

func verdictOf(s story.Story) string {
	if s.Archived {
		return "archived"
	}
	return "serve"
}
