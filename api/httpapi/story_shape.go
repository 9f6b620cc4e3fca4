package httpapi

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/engine/media"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/product/story"
)

// privileged says whether viewer may see the story past its end.
func privileged(s story.Story, viewer mayfly.Viewer) bool {
	return viewer.Moderator() || viewer.Wrote(s.Item)
}

// show is the story as viewer may see it.
func (c *call) show(s story.Story, viewer mayfly.Viewer) wire.Story {
	return c.showAll([]story.Story{s}, viewer)[0]
}

// showAll are the stories as viewer may see them.
func (c *call) showAll(stories []story.Story, viewer mayfly.Viewer) []wire.Story {
	presigned := c.presignReads(stories, viewer)
	all := make([]wire.Story, len(stories))
	for i, s := range stories {
		all[i] = c.showOne(s, viewer, presigned[i])
	}
	return all
}

// showOne is a story as viewer may see it; for anybody else the answer then
// carries something that ends.
func (c *call) showOne(s story.Story, viewer mayfly.Viewer, presigned story.ReadURLs) wire.Story {
	out := wire.Story{
		ID: s.Item.ID, Short: s.Item.ID.Short(), Author: s.Item.Owner, Caption: s.Body.Text,
		Audience: s.Item.Audience.String(), BornAt: s.Item.ID.Birth(), ExpiresAt: s.Item.ID.Deadline(), Lifetime: s.Item.ID.Lifetime(),
		Overlays: s.Overlays, Media: c.showMedia(s, viewer, presigned),
	}
	if s.Item.ServesUntil != 0 {
		until := s.Item.ServesUntil
		out.ServesUntil = &until
	}
	if !privileged(s, viewer) {
		c.carries(s.Item.End())
		return out
	}
	out.State, out.Tier = s.Item.Shown(c.now), s.Tier().String()
	out.Held = s.Item.Held && viewer.Moderator()
	return out
}

func (c *call) showMedia(s story.Story, viewer mayfly.Viewer, presigned story.ReadURLs) []wire.Medium {
	pass := c.passFor(s, viewer)
	all := make([]wire.Medium, len(s.Body.Media))
	for n, m := range s.Body.Media {
		all[n] = wire.Medium{Type: m.Type, Size: m.Size, Width: m.Width, Height: m.Height, SHA256: hex.EncodeToString(m.SHA256[:])}
		all[n].URL, all[n].URLUntil = c.objectURL(story.Object{Medium: n}, pass, presigned)
		if !media.HasPicture(m.Type) || c.o.Thumbnail != 0 && int64(m.Width)*int64(m.Height) > c.o.Thumbnail {
			continue
		}
		for _, longest := range story.Sizes() {
			url, until := c.objectURL(story.Object{Medium: n, Longest: longest}, pass, presigned)
			all[n].Renditions = append(all[n].Renditions, wire.Rendition{Longest: longest, URL: url})
			all[n].URLUntil = min(all[n].URLUntil, until)
		}
	}
	return all
}

// objectURL is where an object is read, and until when: at the storage, or here.
func (c *call) objectURL(o story.Object, pass account.Pass, presigned story.ReadURLs) (string, mayfly.Instant) {
	if url := presigned.URLs[o]; url != "" {
		return url, presigned.Until
	}
	pass.Object = o.String()
	return c.mediaURL(pass), pass.Until
}

// passFor is what the story's media URLs say (ST3). Those of a story for
// everyone name nobody, so that a shared cache has one copy; all others name
// their viewer, who is judged again at each request.
func (c *call) passFor(s story.Story, viewer mayfly.Viewer) account.Pass {
	p := account.Pass{ID: s.Item.ID, Until: lasting(c.now, c.o.URLs)}
	if s.Archived {
		p.Until = lasting(c.now, c.o.ArchiveURLs)
	} else if end := s.Item.End(); end != 0 {
		p.Until = min(p.Until, end)
	}
	if s.Item.Audience != mayfly.Everyone || privileged(s, viewer) {
		p.Viewer, p.Moderator = viewer.User(), viewer.Moderator()
	}
	return p
}

// lasting is an instant between half of lasts and all of it ahead, the same for
// everybody for a while: equal URLs are cached once, and an ETag holds.
func lasting(now mayfly.Instant, lasts time.Duration) mayfly.Instant {
	half := mayfly.Instant(max(1, lasts.Milliseconds()/2))
	return now/half*half + 2*half
}

func (c *call) mediaURL(p account.Pass) string {
	var b strings.Builder
	b.WriteString(c.o.Public)
	b.WriteString("/v1/media/")
	b.WriteString(p.ID.String())
	b.WriteByte('/')
	b.WriteString(p.Object)
	b.WriteByte('?')
	b.WriteString(c.signer.SignPass(p))
	return b.String()
}

// deliver answers with v, which may carry items: not if one of them has ended
// while it was put together (I4).
func (c *call) deliver(status int, v any) error {
	buf := c.buffers.take()
	defer c.buffers.give(buf)
	if err := encode(buf, v); err != nil {
		return err
	}
	sum := sha256.Sum256(buf.Bytes())
	tag := `"` + hex.EncodeToString(sum[:12]) + `"`
	if c.late() {
		return mayfly.Gone
	}
	c.w.Header()["Etag"] = []string{tag}
	if !c.route.changes() && matches(c.r.Header["If-None-Match"], tag) {
		c.w.WriteHeader(http.StatusNotModified)
		return nil
	}
	c.sendJSON(status, buf.Bytes())
	return nil
}

// matches says whether one of the tags of an If-None-Match is tag; a weak one
// compares like a strong one there.
func matches(headers []string, tag string) bool {
	for _, h := range headers {
		for one := range strings.SplitSeq(h, ",") {
			one = strings.TrimPrefix(strings.TrimSpace(one), "W/")
			if one == tag || one == "*" {
				return true
			}
		}
	}
	return false
}
