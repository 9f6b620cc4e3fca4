package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
)

func storyPath(id mayfly.ID) string { return "/v1/stories/" + id.String() }

func userPath(user string) string { return "/v1/users/" + url.PathEscape(user) }

// Story opens a story.
func (c *Client) Story(ctx context.Context, id mayfly.ID) (wire.Story, error) {
	var story wire.Story
	err := c.ask(ctx, call{method: http.MethodGet, path: storyPath(id)}, &story)
	return story, err
}

// Delete deletes a story of the caller.
func (c *Client) Delete(ctx context.Context, id mayfly.ID) error {
	return c.ask(ctx, call{method: http.MethodDelete, path: storyPath(id)}, nil)
}

// View records that the caller has seen a story. Repeating it changes nothing.
func (c *Client) View(ctx context.Context, id mayfly.ID) error {
	return c.ask(ctx, call{method: http.MethodPost, path: storyPath(id) + "/view", again: true}, nil)
}

// Reshare makes a new story from an archived one. For key see Publication.
func (c *Client) Reshare(ctx context.Context, id mayfly.ID, change wire.Reshare, key string) (wire.Story, error) {
	if key == "" {
		key = newKey()
	}
	var story wire.Story
	err := c.askWith(ctx, call{method: http.MethodPost, path: storyPath(id) + "/reshare", key: key}, change, &story)
	return story, err
}

// Preflight reports whether the caller could publish now, and by which rules.
func (c *Client) Preflight(ctx context.Context) (wire.Preflight, error) {
	var preflight wire.Preflight
	err := c.ask(ctx, call{method: http.MethodGet, path: "/v1/me/preflight"}, &preflight)
	return preflight, err
}

// Ring returns the live stories of a user (UUID or ~subject), oldest first.
func (c *Client) Ring(ctx context.Context, user string) (wire.Ring, error) {
	var ring wire.Ring
	err := c.ask(ctx, call{method: http.MethodGet, path: userPath(user) + "/ring"}, &ring)
	return ring, err
}

// Tray returns who of the users whom the caller follows has live stories, those with
// something unseen first.
func (c *Client) Tray(ctx context.Context) (wire.Tray, error) {
	var tray wire.Tray
	err := c.ask(ctx, call{method: http.MethodGet, path: "/v1/me/tray"}, &tray)
	return tray, err
}

// Period selects a part of an archive; the zero value selects all of it.
type Period struct {
	Day      string // a day in UTC such as 2026-01-31; instead of From and To
	From, To mayfly.Instant
}

func (p Period) query() url.Values {
	q := url.Values{}
	if p.Day != "" {
		q.Set("day", p.Day)
	}
	if p.From != 0 {
		q.Set("from", p.From.String())
	}
	if p.To != 0 {
		q.Set("to", p.To.String())
	}
	return q
}

// Archive returns the caller's own expired stories, newest first.
func (c *Client) Archive(ctx context.Context, p Period) iter.Seq2[wire.Story, error] {
	return pages(p.query(), func(q url.Values) ([]wire.Story, string, error) {
		var page wire.Archive
		err := c.ask(ctx, call{method: http.MethodGet, path: "/v1/me/archive", query: q}, &page)
		return page.Stories, page.Next, err
	})
}

// Viewers returns the users who have seen a story of the caller. Unless count is
// nil, it is set to their number with each page.
func (c *Client) Viewers(ctx context.Context, id mayfly.ID, count *int) iter.Seq2[wire.Viewer, error] {
	return pages(nil, func(q url.Values) ([]wire.Viewer, string, error) {
		var page wire.Viewers
		err := c.ask(ctx, call{method: http.MethodGet, path: storyPath(id) + "/viewers", query: q}, &page)
		if count != nil && err == nil {
			*count = page.Count
		}
		return page.Viewers, page.Next, err
	})
}

// pages returns the elements of all pages, following the cursors. It ends after
// the first error.
func pages[T any](query url.Values, ask func(url.Values) (all []T, next string, err error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		q := url.Values{}
		for name, values := range query {
			q[name] = values
		}
		for {
			all, next, err := ask(q)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, one := range all {
				if !yield(one, nil) {
					return
				}
			}
			if next == "" || next == q.Get("cursor") {
				return
			}
			q.Set("cursor", next)
		}
	}
}
