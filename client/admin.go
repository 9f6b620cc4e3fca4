package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
)

// What follows is for a client of the admin listener, with the token of an
// admin or, for holds and restores, of a moderator.

// Explain says why a story is visible to viewer at an instant, or not. An empty
// viewer is anonymous; a zero instant is now.
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

// Walks is how every walk stands.
func (c *Client) Walks(ctx context.Context) (wire.Walks, error) {
	var w wire.Walks
	err := c.ask(ctx, call{method: http.MethodGet, path: "/v1/walks"}, &w)
	return w, err
}

// Ready is how the node stands, of one role or ("") of all. A node that is not
// ready is no error.
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

// Release lifts a hold.
func (c *Client) Release(ctx context.Context, id mayfly.ID, reason string) error {
	return c.askWith(ctx, call{method: http.MethodDelete, path: "/v1/holds/" + id.String()}, wire.Reason{Reason: reason}, nil)
}

// Restore brings a story back, or undoes a run of a walk.
func (c *Client) Restore(ctx context.Context, r wire.RestoreRequest) (wire.Restored, error) {
	var restored wire.Restored
	err := c.askWith(ctx, call{method: http.MethodPost, path: "/v1/restores"}, r, &restored)
	return restored, err
}

// DeadLetters are the steps that were given up after their last try.
func (c *Client) DeadLetters(ctx context.Context) iter.Seq2[wire.DeadLetter, error] {
	return c.DeadLettersOf(ctx, mayfly.ID{}, "")
}

// DeadLettersOf are those of one item, unless it is zero, and of one step, unless
// it is empty.
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

// RetryDeadLetter lets a step be tried again.
func (c *Client) RetryDeadLetter(ctx context.Context, item mayfly.ID, step, reason string) error {
	return c.askWith(ctx, call{method: http.MethodPost, path: letterPath(item, step) + "/retry"}, wire.Reason{Reason: reason}, nil)
}

// DropDeadLetter gives a step up for ever.
func (c *Client) DropDeadLetter(ctx context.Context, item mayfly.ID, step, reason string) error {
	return c.askWith(ctx, call{method: http.MethodDelete, path: letterPath(item, step)}, wire.Reason{Reason: reason}, nil)
}

func letterPath(item mayfly.ID, step string) string {
	return "/v1/dead-letters/" + item.String() + "/" + url.PathEscape(step)
}

// EraseAccount erases all that there is of a user, but for what is held (ST14).
func (c *Client) EraseAccount(ctx context.Context, user, reason string) (wire.Receipt, error) {
	var receipt wire.Receipt
	err := c.askWith(ctx, call{method: http.MethodDelete, path: userPath(user)}, wire.Reason{Reason: reason}, &receipt)
	return receipt, err
}

// Runs are what walks did since an instant, by the hour: what Restore can undo. A
// zero instant is a day ago.
func (c *Client) Runs(ctx context.Context, from mayfly.Instant) iter.Seq2[wire.Run, error] {
	q := url.Values{"limit": {mostOfAPage}}
	if from != 0 {
		q.Set("from", from.String())
	}
	return pages(q, func(q url.Values) ([]wire.Run, string, error) {
		var page wire.Runs
		err := c.ask(ctx, call{method: http.MethodGet, path: "/v1/runs", query: q}, &page)
		return page.Runs, page.Next, err
	})
}

// mostOfAPage is for lists that are read to their end.
const mostOfAPage = "200"

// Orphans looks for media that no item owns; nothing is erased.
func (c *Client) Orphans(ctx context.Context) (wire.Orphans, error) {
	var found wire.Orphans
	err := c.ask(ctx, call{method: http.MethodGet, path: "/v1/orphans"}, &found)
	return found, err
}

// EraseOrphans erases media that no item owns, a few in one go.
func (c *Client) EraseOrphans(ctx context.Context, reason string) (wire.Orphans, error) {
	var erased wire.Orphans
	err := c.askWith(ctx, call{method: http.MethodDelete, path: "/v1/orphans"}, wire.Reason{Reason: reason}, &erased)
	return erased, err
}

// Scrub is what reading cold copies again has found since the server's start.
func (c *Client) Scrub(ctx context.Context) (wire.Scrub, error) {
	var found wire.Scrub
	err := c.ask(ctx, call{method: http.MethodGet, path: "/v1/scrub"}, &found)
	return found, err
}

// Audit is what support and operators did, newest first.
func (c *Client) Audit(ctx context.Context) iter.Seq2[wire.AuditRecord, error] {
	return pages(nil, func(q url.Values) ([]wire.AuditRecord, string, error) {
		var page wire.AuditRecords
		err := c.ask(ctx, call{method: http.MethodGet, path: "/v1/audit", query: q}, &page)
		return page.Records, page.Next, err
	})
}

// VerifyAudit finds records of the audit log that were changed, moved or taken
// away, also by heads of an earlier report that were kept elsewhere.
func (c *Client) VerifyAudit(ctx context.Context, heads []string) (wire.AuditReport, error) {
	var report wire.AuditReport
	err := c.askWith(ctx, call{method: http.MethodPost, path: "/v1/audit/verify", again: true}, wire.AuditCheck{Heads: heads}, &report)
	return report, err
}
