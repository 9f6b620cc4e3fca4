package httpapi

import (
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/product/story"
)

// presignReads are presigned URLs of what is shown, empty where there are none:
// whatever has none is read here, so that nothing fails without them.
func (c *call) presignReads(stories []story.Story, viewer mayfly.Viewer) []story.ReadURLs {
	if !c.mayPresign() {
		return make([]story.ReadURLs, len(stories))
	}
	urls, err := c.stories.PresignReads(c.r.Context(), stories, viewer, c.o.URLs, func() mayfly.Instant { return c.clock.Read().Now })
	c.unsigned(err)
	return urls
}

// presignPuts are presigned URLs for what a reservation waits for.
func (c *call) presignPuts(r story.Reservation, now mayfly.Instant) []story.PutURL {
	if !c.mayPresign() {
		return make([]story.PutURL, len(r.Media))
	}
	urls, err := c.stories.PresignPuts(c.r.Context(), r, now)
	c.unsigned(err)
	return urls
}

// signedBy is how far the system's clock, which dates a presigned URL, may be from
// the node's.
const signedBy = time.Second

// mayPresign says whether URLs may be presigned now: one that is dated wrong is
// refused by the store, or outlives its story.
func (c *call) mayPresign() bool {
	r := c.clock.Read()
	return c.o.Presign && r.Now.Sub(r.Wall).Abs() <= signedBy
}

func (c *call) unsigned(err error) {
	if err != nil {
		c.log.WarnContext(c.r.Context(), "no presigned URLs", "request", c.id, "route", c.route.pattern, "error", err)
	}
}
