package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"strconv"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
)

// Publication is a story to be published.
type Publication struct {
	Story wire.NewStory
	Media []Source // none if Story names an upload
	// Key is the idempotency key: the story is published once, however often it is
	// sent with the same key. Default: a random key. Set and keep it to publish
	// again after an error of kind Unknown.
	Key string
	// Progress is called with how much of a medium has been sent; may be nil. It
	// starts again from 0 when the request is retried.
	Progress func(medium int, done, size int64)
}

// Publish publishes a story. Its media are streamed one after the other in one
// request.
func (c *Client) Publish(ctx context.Context, p Publication) (wire.Story, error) {
	var story wire.Story
	what := call{method: http.MethodPost, path: "/v1/stories", key: p.Key}
	if what.key == "" {
		what.key = newKey()
	}
	if len(p.Media) == 0 {
		err := c.askWith(ctx, what, p.Story, &story)
		return story, err
	}
	text, err := json.Marshal(p.Story)
	if err != nil {
		return story, mayfly.Wrap(mayfly.Invalid, err, "are the overlays JSON?")
	}
	what.big = true
	what.body = mediaForm{"story", text, p.Media, p.Progress}.body
	err = c.ask(ctx, what, &story)
	return story, err
}

// mediaForm is a multipart body: a part with fields, then the media.
type mediaForm struct {
	name     string // of the part with the fields
	fields   []byte // JSON
	media    []Source
	progress func(medium int, done, size int64)
}

// body returns the form, which is written while it is read.
func (f mediaForm) body() (body, error) {
	r, w := io.Pipe()
	form := multipart.NewWriter(w)
	go func() {
		err := f.write(form)
		if err == nil {
			err = form.Close() // writes the final boundary only if all parts are complete
		}
		w.CloseWithError(err)
	}()
	return body{r, form.FormDataContentType(), -1}, nil
}

// write writes the parts in the order that the server requires: the fields, then the
// media.
func (f mediaForm) write(form *multipart.Writer) error {
	part, err := form.CreatePart(textproto.MIMEHeader{
		"Content-Disposition": {`form-data; name="` + f.name + `"`}, "Content-Type": {"application/json"},
	})
	if err != nil {
		return err
	}
	if _, err := part.Write(f.fields); err != nil {
		return err
	}
	for n, source := range f.media {
		if err := f.writeMedium(form, n, source); err != nil {
			return err
		}
	}
	return nil
}

func (f mediaForm) writeMedium(form *multipart.Writer, n int, source Source) error {
	part, err := form.CreateFormFile("media", source.Name)
	if err != nil {
		return err
	}
	var report func(int64)
	if f.progress != nil {
		report = func(done int64) { f.progress(n, done, source.Size) }
	}
	r, err := source.open(report)
	if err != nil {
		return err
	}
	_, err = io.Copy(part, r)
	return errors.Join(err, r.Close())
}

// Reserve reserves an upload for media that are put one by one before they are
// published as a story. The server counts their bytes: their sizes must be known.
func (c *Client) Reserve(ctx context.Context, media ...Source) (wire.Upload, error) {
	return c.reserve(ctx, "", media, false)
}

// ReserveForPost is Reserve for the media of a post.
func (c *Client) ReserveForPost(ctx context.Context, media ...Source) (wire.Upload, error) {
	return c.reserve(ctx, "post", media, false)
}

func (c *Client) reserve(ctx context.Context, what string, media []Source, again bool) (wire.Upload, error) {
	var upload wire.Upload
	in := wire.NewUpload{For: what}
	for _, m := range media {
		if m.Size < 0 {
			return upload, mayfly.Errorf(mayfly.Invalid, "reserve: the size of %s is not known", m.Name).WithHint("publish it in one request, or save it to a file first")
		}
		in.Media = append(in.Media, wire.NewMedium{Length: m.Size})
	}
	err := c.askWith(ctx, call{method: http.MethodPost, path: "/v1/uploads", again: again}, in, &upload)
	return upload, err
}

// Upload gets a reservation, with which of its media have arrived.
func (c *Client) Upload(ctx context.Context, id mayfly.ID) (wire.Upload, error) {
	var upload wire.Upload
	err := c.ask(ctx, call{method: http.MethodGet, path: "/v1/uploads/" + id.String()}, &upload)
	return upload, err
}

// Put sends medium n of a reservation to the server. Progress may be nil.
func (c *Client) Put(ctx context.Context, upload mayfly.ID, n int, source Source, progress func(done, size int64)) (wire.Uploaded, error) {
	var uploaded wire.Uploaded
	err := c.ask(ctx, call{
		method: http.MethodPut, path: "/v1/uploads/" + upload.String() + "/" + strconv.Itoa(n), big: true,
		body: func() (body, error) {
			r, err := source.open(reportOf(source, progress))
			if err != nil {
				return body{}, err
			}
			typ, r := sniffed(r)
			return body{r, typ, -1}, nil
		},
	}, &uploaded)
	return uploaded, err
}
