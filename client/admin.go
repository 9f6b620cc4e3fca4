package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
)

// The methods in this file need a client of the admin listener with an admin
// token; for explanations, runs, holds and restores a moderator token is enough.

// Explain explains why a story is visible to viewer at an instant, or not. An
// empty viewer is anonymous; a zero instant is now.
func (c *Client) Explain(ctx context.Context, id mayfly.ID, viewer string, at mayfly.Instant) (wire.Explanation, error) {
	q := url.Values{}
	if viewer != "" {
		q.Set("viewer", viewer)
	}
	if at != 0 {
		q.Set("at", at.String())
	}
	var e wire.Explanation
	err := c.ask(ctx, call{method: http.MethodGet, path: "/v1/explain/" + id.String(), query: q}, &e)
	return e, err
}

// Walks returns the progress of every walk.
func (c *Client) Walks(ctx context.Context) (wire.Walks, error) {
	var w wire.Walks
	err := c.ask(ctx, call{method: http.MethodGet, path: "/v1/walks"}, &w)
	return w, err
}

// Ready returns whether the node is ready, for one role or, if role is empty, for
// all of them. That the node is not ready is not an error.
func (c *Client) Ready(ctx context.Context, role string) (wire.Health, error) {
	q := url.Values{}
	if role != "" {
		q.Set("role", role)
	}
	var h wire.Health
	err := c.ask(ctx, call{method: http.MethodGet, path: "/readyz", query: q, takes: http.StatusServiceUnavailable, anonymous: true}, &h)
	return h, err
}

// Hold hides an item from everyone but moderators and keeps its bytes.
func (c *Client) Hold(ctx context.Context, id mayfly.ID, reason string) error {
	return c.askWith(ctx, call{method: http.MethodPut, path: "/v1/holds/" + id.String()}, wire.Reason{Reason: reason}, nil)
}

// Held returns what is held, the oldest hour first.
func (c *Client) Held(ctx context.Context) iter.Seq2[wire.HeldItem, error] {
	return pages(nil, func(q url.Values) ([]wire.HeldItem, string, error) {
		var page wire.Held
		err := c.ask(ctx, call{method: http.MethodGet, path: "/v1/held", query: q}, &page)
		return page.Items, page.Next, err
	})
}

// Release lifts a hold.
func (c *Client) Release(ctx context.Context, id mayfly.ID, reason string) error {
	return c.askWith(ctx, call{method: http.MethodDelete, path: "/v1/holds/" + id.String()}, wire.Reason{Reason: reason}, nil)
}

// Restore restores a story, or undoes a run of a walk.
func (c *Client) Restore(ctx context.Context, r wire.RestoreRequest) (wire.Restored, error) {
	var restored wire.Restored
	err := c.askWith(ctx, call{method: http.MethodPost, path: "/v1/restores"}, r, &restored)
	return restored, err
}

// DeadLetters returns the steps that were given up after their last try.
func (c *Client) DeadLetters(ctx context.Context) iter.Seq2[wire.DeadLetter, error] {
	return c.DeadLettersOf(ctx, mayfly.ID{}, "")
}

// DeadLettersOf returns the dead letters of one item, unless item is zero, and of
// one step, unless step is empty.
func (c *Client) DeadLettersOf(ctx context.Context, item mayfly.ID, step string) iter.Seq2[wire.DeadLetter, error] {
	q := url.Values{}
	if !item.IsZero() {
		q.Set("item", item.String())
	}
	if step != "" {
		q.Set("step", step)
	}
	return pages(q, func(q url.Values) ([]wire.DeadLetter, string, error) {
		var page wire.DeadLetters
		err := c.ask(ctx, call{method: http.MethodGet, path: "/v1/dead-letters", query: q}, &page)
		return page.Letters, page.Next, err
	})
}

// Purges returns the purges of the edge that are not verified.
func (c *Client) Purges(ctx context.Context) iter.Seq2[wire.Purge, error] {
	return pages(url.Values{}, func(q url.Values) ([]wire.Purge, string, error) {
		var page wire.Purges
		err := c.ask(ctx, call{method: http.MethodGet, path: "/v1/purges", query: q}, &page)
		return page.Purges, page.Next, err
	})
}

// RetryDeadLetter schedules a dead letter to be tried again.
func (c *Client) RetryDeadLetter(ctx context.Context, item mayfly.ID, step, reason string) error {
	return c.askWith(ctx, call{method: http.MethodPost, path: letterPath(item, step) + "/retry"}, wire.Reason{Reason: reason}, nil)
}

// DropDeadLetter removes a dead letter: its step is never tried again.
func (c *Client) DropDeadLetter(ctx context.Context, item mayfly.ID, step, reason string) error {
	return c.askWith(ctx, call{method: http.MethodDelete, path: letterPath(item, step)}, wire.Reason{Reason: reason}, nil)
}

func letterPath(item mayfly.ID, step string) string {
	return "/v1/dead-letters/" + item.String() + "/" + url.PathEscape(step)
}

// EraseAccount erases everything of a user except held items (ST14).
func (c *Client) EraseAccount(ctx context.Context, user, reason string) (wire.Receipt, error) {
	var receipt wire.Receipt
	err := c.askWith(ctx, call{method: http.MethodDelete, path: userPath(user)}, wire.Reason{Reason: reason}, &receipt)
	return receipt, err
}

// DenyToken has the server refuse an access token before its end.
func (c *Client) DenyToken(ctx context.Context, d wire.TokenDenial) error {
	return c.askWith(ctx, call{method: http.MethodPost, path: "/v1/denied-tokens", again: true}, d, nil)
}

// KVStatus returns how much the key-value store holds.
func (c *Client) KVStatus(ctx context.Context) (wire.KVStatus, error) {
	var s wire.KVStatus
	err := c.ask(ctx, call{method: http.MethodGet, path: "/v1/kv"}, &s)
	return s, err
}

// AddKVKey makes a key of a namespace of the configuration.
func (c *Client) AddKVKey(ctx context.Context, namespace, reason string) (wire.KVCredential, error) {
	var made wire.KVCredential
	err := c.askWith(ctx, call{method: http.MethodPost, path: "/v1/kv/" + url.PathEscape(namespace) + "/credentials"}, wire.Reason{Reason: reason}, &made)
	return made, err
}

// RemoveKVKey removes a key of a namespace of the configuration by its id.
func (c *Client) RemoveKVKey(ctx context.Context, namespace, id, reason string) error {
	path := "/v1/kv/" + url.PathEscape(namespace) + "/credentials/" + url.PathEscape(id)
	return c.askWith(ctx, call{method: http.MethodDelete, path: path}, wire.Reason{Reason: reason}, nil)
}

// CheckFeed compares follow edges with their other direction, and counts with their
// rows: in parts, each of which is passed on.
func (c *Client) CheckFeed(ctx context.Context) iter.Seq2[wire.FeedCheck, error] {
	return pages(nil, func(q url.Values) ([]wire.FeedCheck, string, error) {
		var part wire.FeedCheck
		err := c.ask(ctx, call{method: http.MethodGet, path: "/v1/feed/check", query: q}, &part)
		return []wire.FeedCheck{part}, part.Next, err
	})
}

// ImportFeed has follow edges and posts of another product move in. Sent again it
// changes nothing.
func (c *Client) ImportFeed(ctx context.Context, in wire.FeedImport) (wire.FeedImported, error) {
	var out wire.FeedImported
	err := c.askWith(ctx, call{method: http.MethodPost, path: "/v1/feed/import", again: true}, in, &out)
	return out, err
}

// References looks for everything that is a user's or names the user.
func (c *Client) References(ctx context.Context, user string) (wire.References, error) {
	var found wire.References
	err := c.ask(ctx, call{method: http.MethodGet, path: "/v1/users/" + url.PathEscape(user) + "/references"}, &found)
	return found, err
}

// Runs returns the runs of walks since an instant, which Restore can undo. A zero
// instant is a day ago.
func (c *Client) Runs(ctx context.Context, from mayfly.Instant) iter.Seq2[wire.Run, error] {
	q := url.Values{"limit": {maxPage}}
	if from != 0 {
		q.Set("from", from.String())
	}
	return pages(q, func(q url.Values) ([]wire.Run, string, error) {
		var page wire.Runs
		err := c.ask(ctx, call{method: http.MethodGet, path: "/v1/runs", query: q}, &page)
		return page.Runs, page.Next, err
	})
}

// maxPage is the largest page that the server sends.
const maxPage = "200"

// Orphans looks for media that no item owns, and erases nothing.
func (c *Client) Orphans(ctx context.Context) (wire.Orphans, error) {
	var found wire.Orphans
	err := c.ask(ctx, call{method: http.MethodGet, path: "/v1/orphans"}, &found)
	return found, err
}

// EraseOrphans erases media that no item owns, a limited number in one call.
func (c *Client) EraseOrphans(ctx context.Context, reason string) (wire.Orphans, error) {
	var erased wire.Orphans
	err := c.askWith(ctx, call{method: http.MethodDelete, path: "/v1/orphans"}, wire.Reason{Reason: reason}, &erased)
	return erased, err
}

// Scrub returns what re-reading cold copies has found since the server started.
func (c *Client) Scrub(ctx context.Context) (wire.Scrub, error) {
	var found wire.Scrub
	err := c.ask(ctx, call{method: http.MethodGet, path: "/v1/scrub"}, &found)
	return found, err
}

// Audit returns the records of the audit log, newest first.
func (c *Client) Audit(ctx context.Context) iter.Seq2[wire.AuditRecord, error] {
	return pages(nil, func(q url.Values) ([]wire.AuditRecord, string, error) {
		var page wire.AuditRecords
		err := c.ask(ctx, call{method: http.MethodGet, path: "/v1/audit", query: q}, &page)
		return page.Records, page.Next, err
	})
}

// VerifyAudit finds records of the audit log that were changed, moved or removed.
// Heads are those of an earlier report that were kept elsewhere; may be nil.
func (c *Client) VerifyAudit(ctx context.Context, heads []string) (wire.AuditReport, error) {
	var report wire.AuditReport
	err := c.askWith(ctx, call{method: http.MethodPost, path: "/v1/audit/verify", again: true}, wire.AuditCheck{Heads: heads}, &report)
	return report, err
}
