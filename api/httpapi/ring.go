package httpapi

import (
	"errors"
	"net/http"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
)

// getRing is GET /v1/users/{user}/ring.
func getRing(c *call) error {
	user, err := c.accounts.UserNamed(c.r.PathValue("user"))
	if err != nil {
		return err
	}
	viewer := c.who.Viewer()
	for range ringTries {
		ring := wire.Ring{User: user, Stories: []wire.Story{}}
		stories, err := c.stories.Ring(c.r.Context(), user, viewer, c.now)
		if err != nil {
			return err
		}
		for i, shown := range c.showAll(stories, viewer) {
			if !viewer.User().IsZero() {
				shown.Seen = &stories[i].Seen
			}
			ring.Stories = append(ring.Stories, shown)
		}
		if err := c.deliver(http.StatusOK, ring); !errors.Is(err, mayfly.Gone) {
			return err
		}
		c.now, c.ends = c.clock.Read().Now, 0 // one has ended meanwhile: the others are asked for once more
	}
	return mayfly.Errorf(mayfly.Unavailable, "the ring changes faster than it is read").WithHint("try again")
}

// ringTries is how often a ring is put together in which a story ends meanwhile.
const ringTries = 10
