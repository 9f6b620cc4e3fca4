package feedapi

import (
	"bytes"
	"encoding/hex"
	"io"
	"mime"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/httpapi"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/engine/hydrate"
	"github.com/mayflyhq/mayfly/engine/media"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/product/feed"
)

const (
	// postBody is the largest post besides its media: the text may be escaped in JSON.
	postBody = 32 << 10
	partRoom = 64 << 10 // around each medium of a multipart body
)

func (h *handlers) maxBody() int64 {
	return feed.MaxMedia*(max(h.o.Limits.Image, h.o.Limits.Video)+partRoom) + postBody
}

func newPost() httpapi.Content {
	return append(httpapi.JSONOf[wire.NewPost](), httpapi.Typed{Type: "multipart/form-data", Schema: httpapi.Schema{
		"type": "object",
		"properties": httpapi.Schema{
			"post":  httpapi.Schema{"$ref": "#/components/schemas/NewPost"},
			"media": httpapi.Schema{"type": "array", "maxItems": feed.MaxMedia, "items": httpapi.Schema{"type": "string", "contentMediaType": "application/octet-stream"}},
		},
	}})
}

// create is POST /v1/posts. The body is JSON, or a form with the media in it.
func (h *handlers) create(c *httpapi.Call) error {
	key, err := c.IdempotencyKey()
	if err != nil {
		return err
	}
	d := feed.Draft{Author: c.Caller.User, Key: key}
	typ, params, err := mime.ParseMediaType(c.Request.Header.Get("Content-Type"))
	switch {
	case err == nil && typ == "application/json":
		err = draftOfJSON(c, &d)
	case err == nil && typ == "multipart/form-data":
		err = draftOfForm(c, &d, params["boundary"])
	default:
		err = mayfly.Errorf(mayfly.Unsupported, "a body of type %.80q is not accepted", c.Request.Header.Get("Content-Type")).
			WithHint("send application/json, or multipart/form-data with the parts post and media")
	}
	if err != nil {
		return c.Body.Cause(err)
	}
	p, err := h.posts.Publish(c.Context(), d, steady(c))
	if err != nil {
		return c.Body.Cause(err)
	}
	if d.Media != nil {
		c.CountMediaIn()
	}
	return h.published(c, p)
}

func draftOfJSON(c *httpapi.Call, d *feed.Draft) error {
	fields, err := io.ReadAll(io.LimitReader(c.Body, postBody+1))
	if err != nil {
		return err
	}
	return fill(d, fields)
}

// draftOfForm reads the part post, if there is one. The media are read from the
// connection later, one after the other.
func draftOfForm(c *httpapi.Call, d *feed.Draft, boundary string) error {
	fields, all, err := c.MediaForm(boundary, "post", postBody)
	if err != nil {
		return err
	}
	if fields != nil {
		if err := fill(d, bytes.TrimSpace(fields)); err != nil {
			return err
		}
	}
	d.Media = all
	return nil
}

func fill(d *feed.Draft, fields []byte) error {
	if len(fields) > postBody {
		return mayfly.Errorf(mayfly.TooLarge, "the post has more than %d bytes besides its media", postBody).WithHint("a text has at most 280 characters, in 4 KiB")
	}
	var in wire.NewPost
	if err := httpapi.ParseJSON(fields, &in); err != nil {
		return err
	}
	d.Text, d.Lifetime = in.Text, in.Lifetime
	for _, f := range []struct{ from, to *mayfly.ID }{{in.ReplyTo, &d.ReplyTo}, {in.Quote, &d.Quote}, {in.Upload, &d.Upload}} {
		if f.from != nil {
			*f.to = *f.from
		}
	}
	return nil
}

// showMedia returns the media of a post with the URLs by which its viewer gets them
// (ST3). The URLs of what everyone may see name no viewer, so that a shared cache keeps
// one copy; all others name their viewer, who is judged again at each request.
func (h *handlers) showMedia(c *httpapi.Call, p feed.Post) []wire.Medium {
	if len(p.Body.Media) == 0 {
		return nil
	}
	viewer := c.Caller.Viewer()
	pass := account.Pass{ID: p.Item.ID, Until: httpapi.Lasting(c.Now, h.o.URLs)}
	if end := p.Item.End(); end != 0 && !p.Item.Held {
		pass.Until = min(pass.Until, end)
	}
	if p.Item.Audience != mayfly.Everyone || viewer.Moderator() || viewer.Wrote(p.Item) {
		pass.Viewer, pass.Moderator, pass.Holder = viewer.User(), viewer.Moderator(), c.Caller.Holder()
	}
	url := func(o hydrate.Object) string {
		pass.Object = o.String()
		return c.MediaURL(h.o.Key, pass)
	}
	all := make([]wire.Medium, len(p.Body.Media))
	for n, m := range p.Body.Media {
		all[n] = wire.Medium{
			Type: m.Type, Size: m.Size, Width: m.Width, Height: m.Height, SHA256: hex.EncodeToString(m.SHA256[:]),
			URL: url(hydrate.Object{Medium: n}), URLUntil: pass.Until,
		}
		if !media.HasPicture(m.Type) || h.o.ThumbnailPixels != 0 && int64(m.Width)*int64(m.Height) > h.o.ThumbnailPixels {
			continue
		}
		for _, longest := range hydrate.Sizes() {
			all[n].Renditions = append(all[n].Renditions, wire.Rendition{Longest: longest, URL: url(hydrate.Object{Medium: n, Longest: longest})})
		}
	}
	return all
}
