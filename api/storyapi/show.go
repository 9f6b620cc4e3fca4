package storyapi

import (
	"encoding/hex"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/httpapi"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/engine/hydrate"
	"github.com/mayflyhq/mayfly/engine/media"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/product/story"
)

// privileged reports whether the viewer may see the story past its end.
func privileged(s story.Story, viewer mayfly.Viewer) bool {
	return viewer.Moderator() || viewer.Wrote(s.Item)
}

// show returns a story as the viewer may see it.
func (h *handlers) show(c *httpapi.Call, s story.Story, viewer mayfly.Viewer) wire.Story {
	return h.showAll(c, []story.Story{s}, viewer)[0]
}

// showAll returns stories as the viewer may see them.
func (h *handlers) showAll(c *httpapi.Call, stories []story.Story, viewer mayfly.Viewer) []wire.Story {
	presigned := h.presignReads(c, stories, viewer)
	all := make([]wire.Story, len(stories))
	for i, s := range stories {
		all[i] = h.showOne(c, s, viewer, presigned[i])
	}
	return all
}

// showOne returns a story as the viewer may see it, and notes that the answer
// contains something that ends for them.
func (h *handlers) showOne(c *httpapi.Call, s story.Story, viewer mayfly.Viewer, presigned story.ReadURLs) wire.Story {
	out := wire.Story{
		ID: s.Item.ID, Short: s.Item.ID.Short(), Author: s.Item.Owner, Caption: s.Body.Text,
		Audience: s.Item.Audience.String(), BornAt: s.Item.ID.Birth(), ExpiresAt: s.Item.ID.Deadline(), Lifetime: s.Item.ID.Lifetime(),
		Overlays: s.Overlays, Media: h.showMedia(c, s, viewer, presigned),
	}
	if s.Item.ServesUntil != 0 {
		until := s.Item.ServesUntil
		out.ServesUntil = &until
	}
	if !privileged(s, viewer) {
		c.Carries(s.Item.End())
		return out
	}
	out.State, out.Tier = s.Item.Shown(c.Now), s.Tier().String()
	out.Held = s.Item.Held && viewer.Moderator()
	return out
}

func (h *handlers) showMedia(c *httpapi.Call, s story.Story, viewer mayfly.Viewer, presigned story.ReadURLs) []wire.Medium {
	pass := h.passFor(c, s, viewer)
	all := make([]wire.Medium, len(s.Body.Media))
	for n, m := range s.Body.Media {
		all[n] = wire.Medium{Type: m.Type, Size: m.Size, Width: m.Width, Height: m.Height, SHA256: hex.EncodeToString(m.SHA256[:])}
		all[n].URL, all[n].URLUntil = h.objectURL(c, hydrate.Object{Medium: n}, pass, presigned)
		if !media.HasPicture(m.Type) || h.o.ThumbnailPixels != 0 && int64(m.Width)*int64(m.Height) > h.o.ThumbnailPixels {
			continue
		}
		for _, longest := range hydrate.Sizes() {
			url, until := h.objectURL(c, hydrate.Object{Medium: n, Longest: longest}, pass, presigned)
			all[n].Renditions = append(all[n].Renditions, wire.Rendition{Longest: longest, URL: url})
			all[n].URLUntil = min(all[n].URLUntil, until)
		}
	}
	return all
}

// objectURL returns the URL of an object, at the storage or at this server, and
// until when it is valid.
func (h *handlers) objectURL(c *httpapi.Call, o hydrate.Object, pass account.Pass, presigned story.ReadURLs) (string, mayfly.Instant) {
	if url := presigned.URLs[o]; url != "" {
		return url, presigned.Until
	}
	pass.Object = o.String()
	return c.MediaURL(h.o.Key, pass), pass.Until
}

// passFor returns what the story's media URLs sign (ST3). The URLs of a story for
// everyone name no viewer, so that a shared cache keeps one copy; all others name
// their viewer, who is judged again at each request.
func (h *handlers) passFor(c *httpapi.Call, s story.Story, viewer mayfly.Viewer) account.Pass {
	p := account.Pass{ID: s.Item.ID, Until: httpapi.Lasting(c.Now, h.o.URLs)}
	if s.Archived && !viewer.Moderator() {
		p.Until = httpapi.Lasting(c.Now, h.o.ArchiveURLs)
	} else if end := s.Item.End(); end != 0 {
		p.Until = min(p.Until, end)
	}
	if s.Item.Audience != mayfly.Everyone || privileged(s, viewer) {
		p.Viewer, p.Moderator, p.Holder = viewer.User(), viewer.Moderator(), c.Caller.Holder()
	}
	return p
}

// presignReads returns presigned URLs of what is shown, empty where there are
// none. An object without one is read from this server, so nothing fails.
func (h *handlers) presignReads(c *httpapi.Call, stories []story.Story, viewer mayfly.Viewer) []story.ReadURLs {
	if !h.mayPresign(c) {
		return make([]story.ReadURLs, len(stories))
	}
	urls, err := h.stories.PresignReads(c.Context(), stories, viewer, h.o.URLs, func() mayfly.Instant { return c.ReadClock().Now })
	if err != nil {
		c.Warn("presign failed", err)
	}
	return urls
}

// presignPuts returns presigned URLs for the media that a reservation waits for.
func (h *handlers) presignPuts(c *httpapi.Call, r upload.Reservation, now mayfly.Instant) []upload.PutURL {
	if !h.mayPresign(c) {
		return make([]upload.PutURL, len(r.Media))
	}
	urls, err := h.stories.Uploads().PresignPuts(c.Context(), c.Caller.User, r, now)
	if err != nil {
		c.Warn("presign failed", err)
	}
	return urls
}

// maxSigningSkew is how far the system's clock, which dates presigned URLs, may
// be from the node's.
const maxSigningSkew = time.Second

// mayPresign reports whether URLs may be presigned now. The storage refuses a URL
// that is dated wrong, or accepts it past the end of the story.
func (h *handlers) mayPresign(c *httpapi.Call) bool {
	r := c.ReadClock()
	return h.o.Presign && r.Now.Sub(r.Wall).Abs() <= maxSigningSkew
}
