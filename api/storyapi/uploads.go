package storyapi

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/httpapi"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/engine/upload"
)

// reserveUpload is POST /v1/uploads.
func (h *handlers) reserveUpload(c *httpapi.Call) error {
	var in wire.NewUpload
	if err := c.ReadJSON(&in); err != nil {
		return err
	}
	now := c.ReadClock()
	if now.Err != nil {
		return now.Err // an upload id may not be minted while the clock is in doubt (L7)
	}
	expected := make([]upload.Expected, len(in.Media))
	for n, m := range in.Media {
		expected[n] = upload.Expected{Type: m.Type, Length: m.Length}
	}
	reserve, err := h.reserverFor(in.For)
	if err != nil {
		return err
	}
	r, err := reserve(c.Context(), c.Caller.User, expected, now.Steady)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusCreated, h.showUpload(c, r, now.Steady))
}

type reserver = func(ctx context.Context, author mayfly.UserID, media []upload.Expected, now mayfly.Instant) (upload.Reservation, error)

// reserverFor returns the function that reserves for a product; without a name for a
// story.
func (h *handlers) reserverFor(name string) (reserver, error) {
	var names []string
	if !h.o.Off {
		if name == "" || name == Product {
			return h.stories.Reserve, nil
		}
		names = append(names, Product)
	}
	for _, other := range h.o.Others {
		if name == other.For {
			return other.Reserve, nil
		}
		names = append(names, other.For)
	}
	return nil, mayfly.Errorf(mayfly.Invalid, "an upload for %.40q cannot be reserved here", name).WithHint("set for to " + strings.Join(names, " or "))
}

// getUpload is GET /v1/uploads/{upload}.
func (h *handlers) getUpload(c *httpapi.Call) error {
	id, err := c.ItemID("upload")
	if err != nil {
		return err
	}
	r, err := h.stories.Uploads().Reservation(c.Context(), c.Caller.User, id, c.Now)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, h.showUpload(c, r, c.Now))
}

func (h *handlers) showUpload(c *httpapi.Call, r upload.Reservation, now mayfly.Instant) wire.Upload {
	presigned := h.presignPuts(c, r, now)
	out := wire.Upload{ID: r.Upload, ExpiresAt: r.Deadline, Put: make([]wire.PutTarget, len(r.Media))}
	for n, m := range r.Media {
		out.Put[n] = wire.PutTarget{Method: http.MethodPut, URL: c.URL("/v1/uploads/" + r.Upload.String() + "/" + strconv.Itoa(n)), Length: m.Length, Done: m.Done}
		if p := presigned[n]; p.URL != "" {
			out.Put[n].Presigned = &wire.PutURL{URL: p.URL, Until: p.Until}
		}
	}
	return out
}

// putMedium is PUT /v1/uploads/{upload}/{n}.
func (h *handlers) putMedium(c *httpapi.Call) error {
	id, err := c.ItemID("upload")
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(c.Request.PathValue("n"))
	if err != nil || n < 0 || n >= mayfly.MaxMedia || strconv.Itoa(n) != c.Request.PathValue("n") {
		return mayfly.Errorf(mayfly.Invalid, "invalid number of a medium %.20q", c.Request.PathValue("n")).WithHint(fmt.Sprintf("send a number from 0 to %d, without leading zeros", mayfly.MaxMedia-1))
	}
	m, err := h.stories.Uploads().Put(c.Context(), c.Caller.User, id, n, c.Body, c.Now)
	if err != nil {
		return c.Body.Cause(err)
	}
	c.CountMediaIn()
	return c.JSON(http.StatusCreated, wire.Uploaded{Type: m.Type, Size: m.Size, Width: m.Width, Height: m.Height, SHA256: hex.EncodeToString(m.SHA256[:])})
}

// preflight is GET /v1/me/preflight.
func (h *handlers) preflight(c *httpapi.Call) error {
	p, err := h.stories.Preflight(c.Context(), c.Caller.User, c.Now)
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
	return c.JSON(http.StatusOK, out)
}
