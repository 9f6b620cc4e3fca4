package httpapi

import (
	"net/http"

	"github.com/mayflyhq/mayfly/api/wire"
)

// preflight is GET /v1/me/preflight.
func preflight(c *call) error {
	p, err := c.stories.Preflight(c.r.Context(), c.who.User, c.now)
	if err != nil {
		return err
	}
	out := wire.Preflight{
		MayPublish: p.MayPublish, Reason: p.Reason, Live: p.Live, LiveLimit: p.LiveLimit, Lifetimes: p.Lifetimes,
		MaxMedia: p.MaxMedia, MaxImage: p.Limits.Image, MaxVideo: p.Limits.Video, MaxPixels: p.Limits.Pixels, Types: p.Types,
	}
	if p.NextAt != 0 {
		out.NextAt = &p.NextAt
	}
	return c.json(http.StatusOK, out)
}
