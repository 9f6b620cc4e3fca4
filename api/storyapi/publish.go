package storyapi

import (
	"bytes"
	"io"
	"mime"
	"net/http"
	"slices"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/httpapi"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/engine/media"
	"github.com/mayflyhq/mayfly/product/story"
)

// publishStory is POST /v1/stories. The body is a form with the media in it, one
// medium, or JSON that names an upload.
func (h *handlers) publishStory(c *httpapi.Call) error {
	key, err := c.IdempotencyKey()
	if err != nil {
		return err
	}
	typ, params, err := mime.ParseMediaType(c.Request.Header.Get("Content-Type"))
	if err != nil {
		return badPublishType(c.Request.Header.Get("Content-Type"))
	}
	draft := story.Draft{Author: c.Caller.User, Key: key}
	switch {
	case typ == formType:
		err = draftOfForm(c, &draft, params["boundary"])
	case typ == jsonType:
		err = draftOfJSON(c, &draft)
	case slices.Contains(media.Taken(), typ), typ == "application/octet-stream", typ == "image/heic", typ == "image/avif":
		err = draftOfBytes(c, &draft)
	default:
		err = badPublishType(typ)
	}
	if err != nil {
		return c.Body.Cause(err)
	}
	s, err := h.stories.Publish(c.Context(), draft, steady(c))
	if err != nil {
		return c.Body.Cause(err)
	}
	c.CountMediaIn()
	return h.published(c, s)
}

// reshareStory is POST /v1/stories/{id}/reshare. Without a body nothing changes
// but the id.
func (h *handlers) reshareStory(c *httpapi.Call) error {
	id, err := c.ItemID("id")
	if err != nil {
		return err
	}
	key, err := c.IdempotencyKey()
	if err != nil {
		return err
	}
	text, err := io.ReadAll(c.Body)
	if err != nil {
		return c.Body.Cause(err)
	}
	var in wire.Reshare
	if len(text) > 0 {
		if err := c.RequireType(jsonType); err != nil {
			return err
		}
		if err := httpapi.ParseJSON(text, &in); err != nil {
			return err
		}
	}
	s, err := h.stories.Reshare(c.Context(), id, c.Caller.User, story.Change{Caption: in.Caption, Audience: in.Audience, Lifetime: in.Lifetime}, key, steady(c))
	if err != nil {
		return err
	}
	return h.published(c, s)
}

// steady returns the function by which a story is given its birth.
func steady(c *httpapi.Call) func() mayfly.Instant {
	return func() mayfly.Instant { return c.ReadClock().Steady }
}

// published answers with a story that was published now, or before with the same
// key.
func (h *handlers) published(c *httpapi.Call, s story.Story) error {
	c.Now = c.ReadClock().Now // the story was born after the request arrived
	status := http.StatusCreated
	if s.Again {
		status = http.StatusOK
	} else {
		c.CountBirth()
	}
	c.Header().Set("Location", c.URL("/v1/stories/"+s.Item.ID.String()))
	return c.Deliver(status, h.show(c, s, mayfly.ViewerOf(c.Caller.User)))
}

// deleteStory is DELETE /v1/stories/{id}.
func (h *handlers) deleteStory(c *httpapi.Call) error {
	id, err := c.ItemID("id")
	if err != nil {
		return err
	}
	if err := h.stories.Delete(c.Context(), id, c.Caller.User, c.ReadClock().Steady); err != nil {
		return err
	}
	return c.NoContent()
}

func badPublishType(typ string) error {
	return mayfly.Errorf(mayfly.Unsupported, "a body of type %.80q is not accepted", typ).
		WithHint("send multipart/form-data with the parts story and media, application/json with an upload, or one medium with its own type")
}

func fill(d *story.Draft, in wire.NewStory) {
	d.Caption, d.Audience, d.Lifetime, d.Overlays = in.Caption, in.Audience, in.Lifetime, in.Overlays
}

func draftOfJSON(c *httpapi.Call, d *story.Draft) error {
	text, err := io.ReadAll(io.LimitReader(c.Body, storyBody+1))
	if err != nil {
		return err
	}
	if len(text) > storyBody {
		return tooLongStory()
	}
	var in wire.NewStory
	if err := httpapi.ParseJSON(text, &in); err != nil {
		return err
	}
	if in.Upload == nil || in.Upload.IsZero() {
		return mayfly.Errorf(mayfly.Invalid, "a story needs media").WithHint("send multipart/form-data with media, or the id of an upload in upload")
	}
	fill(d, in)
	d.Upload = *in.Upload
	return nil
}

func tooLongStory() error {
	return mayfly.Errorf(mayfly.TooLarge, "the story has more than %d bytes besides its media", storyBody).WithHint("use fewer or shorter overlays")
}

// draftOfBytes reads a story whose body is its one medium, with the fields in the
// query.
func draftOfBytes(c *httpapi.Call, d *story.Draft) error {
	q := c.Request.URL.Query()
	for name := range q {
		if !slices.Contains([]string{"caption", "audience", "lifetime"}, name) {
			return mayfly.Errorf(mayfly.Invalid, "unknown parameter %.40q", name).WithHint("the query may have caption, audience and lifetime; for overlays send a form")
		}
	}
	fill(d, wire.NewStory{Caption: q.Get("caption"), Audience: q.Get("audience"), Lifetime: q.Get("lifetime")})
	d.Media = func(yield func(io.Reader, error) bool) { yield(c.Body, nil) }
	return nil
}

// draftOfForm reads the part story, if there is one. The media are read from the
// connection later, one after the other.
func draftOfForm(c *httpapi.Call, d *story.Draft, boundary string) error {
	fields, media, err := c.MediaForm(boundary, "story", storyBody)
	if err != nil {
		return err
	}
	if len(fields) > storyBody {
		return tooLongStory()
	}
	if fields != nil {
		var in wire.NewStory
		if err := httpapi.ParseJSON(bytes.TrimSpace(fields), &in); err != nil {
			return err
		}
		if in.Upload != nil {
			return mayfly.Errorf(mayfly.Invalid, "the request has both an upload and media").WithHint("send the id of an upload in a JSON body, or media in a form")
		}
		fill(d, in)
	}
	if media == nil {
		return noMedia()
	}
	d.Media = media
	return nil
}

func noMedia() error {
	return mayfly.Errorf(mayfly.Invalid, "a story needs media").WithHint("send 1 to 10 parts named media after the part story")
}
