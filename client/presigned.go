package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"

	"github.com/mayflyhq/mayfly/api/wire"
)

// PublishUpload publishes a story after its media were put one by one, so that
// each of them can be retried alone. Media go directly to the storage where the
// server offers presigned URLs, else to the server.
func (c *Client) PublishUpload(ctx context.Context, p Publication) (wire.Story, error) {
	upload, err := c.reserve(ctx, "", p.Media, true) // a reservation whose response is lost expires unused
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

// PutTo puts medium n of a reservation to its presigned URL. If there is none, or
// the storage refuses the medium or cannot be reached, it sends the medium to the
// server. Progress may be nil. The medium is validated when it is published.
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

// presigned returns the presigned URL of a medium, or nil if there is none or it
// must not be used: the storage accepts the reserved size only, and what goes to the server
// over TLS must not go to the storage without TLS.
func (c *Client) presigned(upload wire.Upload, n int, source Source) *url.URL {
	if n < 0 || n >= len(upload.Put) || upload.Put[n].Presigned == nil || source.Size != upload.Put[n].Length {
		return nil
	}
	u, err := url.Parse(upload.Put[n].Presigned.URL)
	if err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || c.base.Scheme == "https") {
		return nil
	}
	return u
}

// putPresigned sends a medium to the storage. The URL itself is the permission, so
// no token is sent, whatever the host.
func (c *Client) putPresigned(ctx context.Context, target *url.URL, source Source, progress func(done, size int64)) error {
	res, err := c.send(ctx, call{
		method: http.MethodPut, path: "presigned", absolute: target, anonymous: true, big: true,
		body: func() (body, error) {
			r, err := source.open(reportOf(source, progress))
			return body{r, "application/octet-stream", source.Size}, err
		},
	})
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, io.LimitReader(res.Body, longestProblem)) // so that the connection can be reused
	return errors.Join(err, res.Body.Close())
}

// reportOf returns progress as Source.open takes it.
func reportOf(source Source, progress func(done, size int64)) func(done int64) {
	if progress == nil {
		return nil
	}
	return func(done int64) { progress(done, source.Size) }
}
