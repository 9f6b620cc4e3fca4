package httpapi

import (
	"io"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/product/story"
)

// reshareStory is POST /v1/stories/{id}/reshare. Without a body it is as it was.
func reshareStory(c *call) error {
	id, err := c.item()
	if err != nil {
		return err
	}
	key, err := c.key()
	if err != nil {
		return err
	}
	text, err := io.ReadAll(c.body)
	if err != nil {
		return c.body.why(err)
	}
	var in wire.Reshare
	if len(text) > 0 {
		if err := wantType(c.r, jsonType); err != nil {
			return err
		}
		if err := readJSON(text, &in); err != nil {
			return err
		}
	}
	s, err := c.stories.Reshare(c.r.Context(), id, c.who.User, story.Change{Caption: in.Caption, Audience: in.Audience, Lifetime: in.Lifetime}, key, func() mayfly.Instant { return c.clock.Read().Steady })
	if err != nil {
		return err
	}
	return c.published(s)
}
