package storyapi

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/httpapi"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/engine/hydrate"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/product/story"
)

// openStory is GET /v1/stories/{id}.
func (h *handlers) openStory(c *httpapi.Call) error {
	id, err := c.ItemID("id")
	if err != nil {
		return err
	}
	viewer := c.Caller.Viewer()
	s, err := h.stories.Open(c.Context(), id, viewer, c.Now)
	c.CountVerdict(verdictOf(s), err)
	if err != nil {
		return err
	}
	return c.Deliver(http.StatusOK, h.show(c, s, viewer))
}

const serves = "serve"

func verdictOf(s story.Story) string {
	if s.Archived {
		return "archived"
	}
	return serves
}

// viewStory is POST /v1/stories/{id}/view.
func (h *handlers) viewStory(c *httpapi.Call) error {
	id, err := c.ItemID("id")
	if err != nil {
		return err
	}
	if err := h.stories.View(c.Context(), id, c.Caller.Viewer(), c.Now); err != nil {
		return err
	}
	h.views.Inc()
	return c.NoContent()
}

// listViewers is GET /v1/stories/{id}/viewers.
func (h *handlers) listViewers(c *httpapi.Call) error {
	id, err := c.ItemID("id")
	if err != nil {
		return err
	}
	cursor, limit, err := c.Page()
	if err != nil {
		return err
	}
	count, views, next, err := h.stories.Viewers(c.Context(), id, c.Caller.Viewer(), cursor, limit, c.Now)
	if err != nil {
		return err
	}
	out := wire.Viewers{Count: count, Viewers: make([]wire.Viewer, len(views)), Next: next}
	for i, v := range views {
		out.Viewers[i] = wire.Viewer{User: v.User, At: v.At}
	}
	return c.JSON(http.StatusOK, out)
}

// ringTries is how often a ring is read again because a story of it has ended
// meanwhile.
const ringTries = 10

// getRing is GET /v1/users/{user}/ring.
func (h *handlers) getRing(c *httpapi.Call) error {
	user, err := c.User("user")
	if err != nil {
		return err
	}
	viewer := c.Caller.Viewer()
	for range ringTries {
		ring := wire.Ring{User: user, Stories: []wire.Story{}}
		stories, err := h.stories.Ring(c.Context(), user, viewer, c.Now)
		if err != nil {
			return err
		}
		for i, shown := range h.showAll(c, stories, viewer) {
			if !viewer.User().IsZero() {
				shown.Seen = &stories[i].Seen
			}
			ring.Stories = append(ring.Stories, shown)
		}
		if err := c.Deliver(http.StatusOK, ring); !errors.Is(err, mayfly.Gone) {
			return err
		}
		c.Restart()
	}
	return mayfly.Errorf(mayfly.Unavailable, "the ring changes faster than it is read").WithHint("try again")
}

// getTray is GET /v1/me/tray.
func (h *handlers) getTray(c *httpapi.Call) error {
	c.Compress()
	for range ringTries {
		tray, err := h.stories.Tray(c.Context(), c.Caller.User, c.Now)
		if err != nil {
			return err
		}
		out := wire.Tray{Slots: make([]wire.TraySlot, len(tray.Slots)), Partial: tray.Partial}
		for i, s := range tray.Slots {
			out.Slots[i] = wire.TraySlot{User: s.Author, Newest: s.Newest, EndsAt: s.Ends}
			if !s.Seen.IsZero() {
				out.Slots[i].Seen = &tray.Slots[i].Seen
			}
			c.Carries(s.Until)
		}
		if err := c.Deliver(http.StatusOK, out); !errors.Is(err, mayfly.Gone) {
			return err
		}
		c.Restart()
	}
	return mayfly.Errorf(mayfly.Unavailable, "the tray changes faster than it is read").WithHint("try again")
}

// listArchive is GET /v1/me/archive.
func (h *handlers) listArchive(c *httpapi.Call) error {
	between, err := readSpan(c)
	if err != nil {
		return err
	}
	cursor, limit, err := c.Page()
	if err != nil {
		return err
	}
	stories, next, err := h.stories.Archive(c.Context(), c.Caller.User, between, cursor, limit, c.Now)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, wire.Archive{Stories: h.showAll(c, stories, mayfly.ViewerOf(c.Caller.User)), Next: next})
}

// readSpan reads day, or from and to, from the query; a missing one is zero.
func readSpan(c *httpapi.Call) (between story.Between, err error) {
	q := c.Request.URL.Query()
	if day := q.Get("day"); q.Has("day") {
		if q.Has("from") || q.Has("to") {
			return between, mayfly.Errorf(mayfly.Invalid, "the query has day together with from or to").WithHint("send day, or from and to")
		}
		t, err := time.Parse(time.DateOnly, day)
		if err != nil {
			return between, mayfly.Errorf(mayfly.Invalid, "invalid day %.20q", day).WithHint("write it like 2026-01-31")
		}
		from := mayfly.InstantOf(t)
		return story.Between{From: from, To: from.Add(24 * time.Hour)}, nil
	}
	for name, at := range map[string]*mayfly.Instant{"from": &between.From, "to": &between.To} {
		if !q.Has(name) {
			continue
		}
		if err := at.UnmarshalText([]byte(q.Get(name))); err != nil {
			return between, err
		}
		if *at <= 0 {
			return between, mayfly.Errorf(mayfly.Invalid, "%s is not an instant", name).WithHint("write it like 2026-01-31T18:00:00.000Z")
		}
	}
	if between.From != 0 && between.To != 0 && between.To < between.From {
		return between, mayfly.Errorf(mayfly.Invalid, "to is before from").WithHint("from is the earlier instant")
	}
	return between, nil
}

// maxSharedCache is how long a shared cache may keep a medium at most (E2).
const maxSharedCache = 60 * time.Second

// getMedium is GET and HEAD /v1/media/{id}/{object}. The signature of the URL or
// the token says who views; the gate judges either way (ST3).
func (h *handlers) getMedium(c *httpapi.Call) (err error) {
	id, err := c.ItemID("id")
	if err != nil {
		return err
	}
	pass, err := h.readPass(c, id)
	if err != nil {
		return err
	}
	object, err := hydrate.ParseObject(c.Request.PathValue("object"))
	if err != nil {
		return httpapi.Refusal(id, c.Now) // no viewer has such an object
	}
	viewer := pass.Eyes()
	m, err := h.openMedium(c, id, viewer, object)
	c.CountVerdict(m.verdict, err)
	if err != nil {
		return noSuchObject(err, id, c.Now)
	}
	defer func() {
		if closed := m.Close(); err == nil && closed != nil {
			err = fmt.Errorf("close medium: %w", closed)
		}
	}()
	served := httpapi.Media{ReadSeeker: m, Type: m.Type, Size: m.Size, SHA256: m.SHA256}
	if !viewer.Moderator() && !viewer.Wrote(m.item) || m.item.Fate == mayfly.Purge && !m.item.Held {
		served.End = m.item.End()
	}
	if m.item.Audience == mayfly.Everyone && m.verdict == serves && pass.Viewer.IsZero() && !pass.Moderator {
		served.Cache, served.URLUntil = maxSharedCache, pass.Until
		served.Keys = httpapi.CacheKeys{Item: id, Owner: m.item.Owner}
	}
	return c.ServeMedia(served)
}

// medium is an open object of an item.
type medium struct {
	*hydrate.Opened
	item    mayfly.Item
	verdict string
}

// openMedium opens an object of a story, or of an item of another product. What one
// refuses the next is asked for, so that every refusal costs the same.
func (h *handlers) openMedium(c *httpapi.Call, id mayfly.ID, viewer mayfly.Viewer, object hydrate.Object) (medium, error) {
	err := httpapi.Refusal(id, c.Now)
	if !h.o.Off {
		var m *story.Medium
		if m, err = h.stories.Medium(c.Context(), id, viewer, object, c.Now); err == nil {
			return medium{m.Opened, m.Story.Item, verdictOf(m.Story)}, nil
		}
	}
	for _, other := range h.o.Others {
		if !errors.Is(err, mayfly.NotFound) && !errors.Is(err, mayfly.Gone) {
			break
		}
		var item mayfly.Item
		var m *hydrate.Opened
		if item, m, err = other.Open(c.Context(), id, viewer, object, c.Now); err == nil {
			return medium{m, item, serves}, nil
		}
	}
	return medium{}, err
}

// noSuchObject makes a medium that does not exist look like a story that does not
// exist; so does a smaller picture that cannot be made.
func noSuchObject(err error, id mayfly.ID, now mayfly.Instant) error {
	if kind := httpapi.KindOf(err); kind == mayfly.NotFound || kind == mayfly.Unsupported {
		return httpapi.Refusal(id, now)
	}
	return err
}

// readPass returns the pass that the URL signs, or that a user's token stands
// for. A URL that is forged or no longer valid, and a request without either, are
// answered like a story that does not exist.
func (h *handlers) readPass(c *httpapi.Call, id mayfly.ID) (account.Pass, error) {
	query := c.Request.URL.Query()
	if query.Has("sig") {
		p, err := h.o.Key.CheckPass(id, c.Request.PathValue("object"), query, c.Caller, c.Now)
		if err != nil {
			return p, httpapi.Refusal(id, c.Now)
		}
		return p, nil
	}
	viewer := c.Caller.Viewer()
	if viewer.User().IsZero() && !viewer.Moderator() {
		return account.Pass{}, httpapi.Refusal(id, c.Now)
	}
	if err := c.TakeRead(); err != nil { // a signed URL was counted when it was returned
		return account.Pass{}, err
	}
	return account.Pass{ID: id, Viewer: viewer.User(), Moderator: viewer.Moderator(), Until: c.Now}, nil
}
