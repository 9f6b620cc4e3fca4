package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"

	"github.com/mayflyhq/mayfly/api/wire"
)

// PublishUpload publishes a story whose media are put one by one first, each by
// itself sent again where the connection fails: straight to the storage where the
// server offers that, else to the server.
func (c *Client) PublishUpload(ctx context.Context, p Publication) (wire.Story, error) {
	upload, err := c.reserve(ctx, len(p.Media), true) // one whose answer is lost is never published, and goes
	if err != nil {
		return wire.Story{}, err
	}
	for n, source := range p.Media {
		var progress func(done, size int64)
		if p.Progress != nil {
			progress = func(done, size int64) { p.Progress(n, done, size) }
		}
		if err := c.PutTo(ctx, upload, n, source, progress); err != nil {
			return wire.Story{}, err
		}
	}
	p.Story.Upload, p.Media = &upload.ID, nil
	return c.Publish(ctx, p)
}

// PutTo puts medium n of a reservation by the presigned URL that it offers. What
// the storage does not take, or where it cannot be reached from here, the server
// takes. Progress may be nil. What a medium is worth is said when it is published.
func (c *Client) PutTo(ctx context.Context, upload wire.Upload, n int, source Source, progress func(done, size int64)) error {
	if target := c.presigned(upload, n, source); target != nil {
		err := c.putPresigned(ctx, target, source, progress)
		var own sourceError
		if err == nil || ctx.Err() != nil || errors.As(err, &own) {
			return err
		}
	}
	_, err := c.Put(ctx, upload.ID, n, source, progress)
	return err
}

// presigned is where the storage takes a medium; nil where it does not, or should
// not get it: a storage wants to know the length, and what goes to a server by
// TLS goes by TLS.
func (c *Client) presigned(upload wire.Upload, n int, source Source) *url.URL {
	if n < 0 || n >= len(upload.Put) || upload.Put[n].Presigned == nil || source.Size <= 0 || source.Size > upload.Put[n].Presigned.MaxBytes {
		return nil
	}
	u, err := url.Parse(upload.Put[n].Presigned.URL)
	if err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || c.base.Scheme == "https") {
		return nil
	}
	return u
}

// putPresigned sends a medium to the storage. The URL is the permission: no token
// goes with it, wherever it leads.
func (c *Client) putPresigned(ctx context.Context, target *url.URL, source Source, progress func(done, size int64)) error {
	res, err := c.send(ctx, call{
		method: http.MethodPut, path: "presigned", absolute: target, anonymous: true, big: true,
		body: func() (body, error) {
			r, err := source.open(tellOf(source, progress))
			return body{r, "application/octet-stream", source.Size}, err
		},
	})
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, io.LimitReader(res.Body, longestProblem)) // so that the connection can be used again
	return errors.Join(err, res.Body.Close())
}

// tellOf is progress as a source tells it.
func tellOf(source Source, progress func(done, size int64)) func(done int64) {
	if progress == nil {
		return nil
	}
	return func(done int64) { progress(done, source.Size) }
}
