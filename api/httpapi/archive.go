package httpapi

import (
	"net/http"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/product/story"
)

// listArchive is GET /v1/me/archive.
func listArchive(c *call) error {
	from, to, err := c.span()
	if err != nil {
		return err
	}
	cursor, limit, err := c.page()
	if err != nil {
		return err
	}
	stories, next, err := c.stories.Archive(c.r.Context(), c.who.User, story.Between{From: from, To: to}, cursor, limit, c.now)
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, wire.Archive{Stories: c.showAll(stories, mayfly.ViewerOf(c.who.User)), Next: next})
}
