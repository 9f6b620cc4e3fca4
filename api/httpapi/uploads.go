package httpapi

import (
	"encoding/hex"
	"net/http"
	"strconv"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/product/story"
)

// reserveUpload is POST /v1/uploads.
func reserveUpload(c *call) error {
	var in wire.NewUpload
	if err := c.read(&in); err != nil {
		return err
	}
	now := c.clock.Read()
	if now.Err != nil {
		return now.Err // an upload id is minted (L7)
	}
	r, err := c.stories.Reserve(c.r.Context(), c.who.User, in.Media, now.Steady)
	if err != nil {
		return err
	}
	return c.json(http.StatusCreated, c.showUpload(r, now.Steady))
}

// getUpload is GET /v1/uploads/{upload}.
func getUpload(c *call) error {
	id, err := mayfly.ParseID(c.r.PathValue("upload"))
	if err != nil {
		return err
	}
	r, err := c.stories.Reservation(c.r.Context(), c.who.User, id, c.now)
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, c.showUpload(r, c.now))
}

func (c *call) showUpload(r story.Reservation, now mayfly.Instant) wire.Upload {
	presigned := c.presignPuts(r, now)
	out := wire.Upload{ID: r.Upload, ExpiresAt: r.Deadline, Put: make([]wire.PutTarget, len(r.Media))}
	for n, m := range r.Media {
		out.Put[n] = wire.PutTarget{Method: http.MethodPut, URL: c.o.Public + "/v1/uploads/" + r.Upload.String() + "/" + strconv.Itoa(n), Done: m.Done}
		if p := presigned[n]; p.URL != "" {
			out.Put[n].Presigned = &wire.PutURL{URL: p.URL, Until: p.Until, MaxBytes: p.Most}
		}
	}
	return out
}

// putMedium is PUT /v1/uploads/{upload}/{n}.
func putMedium(c *call) error {
	id, err := mayfly.ParseID(c.r.PathValue("upload"))
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(c.r.PathValue("n"))
	if err != nil || n < 0 || n >= mayfly.MaxMedia || strconv.Itoa(n) != c.r.PathValue("n") {
		return mayfly.Errorf(mayfly.Invalid, "%.20q is no number of a medium", c.r.PathValue("n")).WithHint("count from 0")
	}
	m, err := c.stories.Put(c.r.Context(), c.who.User, id, n, c.body, c.now)
	if err != nil {
		return c.body.why(err)
	}
	c.metrics.mediaBytes.WithLabelValues("in").Add(float64(c.body.read))
	return c.json(http.StatusCreated, wire.Uploaded{Type: m.Type, Size: m.Size, Width: m.Width, Height: m.Height, SHA256: hex.EncodeToString(m.SHA256[:])})
}
