package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/product/account"
)

// Desk is where support and operators work: what the verbs of the command line do
// on a stopped folder, they do here while the node serves.
type Desk interface {
	Restore(ctx context.Context, in wire.RestoreRequest, by string, progress func(done, of int), now mayfly.Instant) (wire.Restored, error)
	Runs(ctx context.Context, from mayfly.Instant, cursor string, limit int, now mayfly.Instant) (wire.Runs, error)
	DeadLetters(ctx context.Context, item mayfly.ID, step, cursor string, limit int) (wire.DeadLetters, error)
	RetryDead(ctx context.Context, item mayfly.ID, step, by, reason string, now mayfly.Instant) error
	DropDead(ctx context.Context, item mayfly.ID, step, by, reason string, now mayfly.Instant) error
	Orphans(ctx context.Context, by, reason string, most int, now mayfly.Instant) (wire.Orphans, error)
	Scrubbed() wire.Scrub
	AuditRecords(ctx context.Context, cursor string, limit int) (wire.AuditRecords, error)
	VerifyAudit(ctx context.Context, heads []string) (wire.AuditReport, error)
}

// headsBody is how much of heads that were kept elsewhere is read: ten thousand
// of them, about.
const headsBody = 2 << 20

// deskRoutes are what operators look at and clean up.
func deskRoutes(admin, support []account.Scope, reason func(route) route) []route {
	conflict := []int{http.StatusConflict}
	instant := schema{"type": "string", "format": "date-time"}
	return []route{
		{
			method: "GET", pattern: "/v1/runs", id: "listRuns", tag: "walks", scopes: support, summary: "What walks did, by the hour: what a restore can undo",
			params:  append([]param{query("from", "Only those that began at or after this instant; the last 24 h unless it is said.", instant)}, paging()...),
			answers: answers[wire.Runs](http.StatusOK, "A page of them."), do: listRuns,
		},
		{
			method: "GET", pattern: "/v1/orphans", id: "findOrphans", tag: "upkeep", scopes: admin, summary: "Look for media that no item owns, and erase nothing",
			answers: answers[wire.Orphans](http.StatusOK, "What it would erase."), do: findOrphans,
		},
		reason(route{
			method: "DELETE", pattern: "/v1/orphans", id: "eraseOrphans", tag: "upkeep", scopes: admin, may: conflict, summary: "Erase media that no item owns: 0.1 % of what it looked at in one go, at most",
			answers: answers[wire.Orphans](http.StatusOK, "What it erased."), do: eraseOrphans,
		}),
		{
			method: "GET", pattern: "/v1/scrub", id: "getScrub", tag: "upkeep", scopes: admin, summary: "What reading cold copies again has found since the start",
			answers: answers[wire.Scrub](http.StatusOK, "How it stands."), do: getScrub,
		},
		{
			method: "GET", pattern: "/v1/audit", id: "listAudit", tag: "audit", scopes: admin, summary: "What support and operators did, newest first",
			params: paging(), answers: answers[wire.AuditRecords](http.StatusOK, "A page of records."), do: listAudit,
		},
		{
			method: "POST", pattern: "/v1/audit/verify", id: "verifyAudit", tag: "audit", scopes: admin, most: headsBody, summary: "Find records that were changed, moved or taken away",
			body: jsonOf[wire.AuditCheck](), answers: answers[wire.AuditReport](http.StatusOK, "What it saw."),
			example: `-H 'Content-Type: application/json' -d '{}'`, do: verifyAudit,
		},
	}
}

// runsBefore is how far back runs are listed unless it is said.
const runsBefore = 24 * time.Hour

// listRuns is GET /v1/runs.
func listRuns(c *call) error {
	cursor, limit, err := c.page()
	if err != nil {
		return err
	}
	from := c.now.Add(-runsBefore)
	if text := c.r.URL.Query().Get("from"); text != "" {
		if err := from.UnmarshalText([]byte(text)); err != nil {
			return err
		}
	}
	runs, err := c.operator.Desk().Runs(c.r.Context(), from, cursor, limit, c.now)
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, runs)
}

// findOrphans is GET /v1/orphans. It looks at as much as the node's own collector
// does in one go, so that it ends.
func findOrphans(c *call) error { return c.orphans("") }

// eraseOrphans is DELETE /v1/orphans.
func eraseOrphans(c *call) error {
	reason, err := c.reason()
	if err != nil {
		return err
	}
	return c.orphans(reason)
}

func (c *call) orphans(reason string) error {
	now, err := c.deedAt()
	if err != nil {
		return err
	}
	found, err := c.operator.Desk().Orphans(c.r.Context(), c.who.Actor(), reason, 0, now)
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, found)
}

// getScrub is GET /v1/scrub.
func getScrub(c *call) error { return c.json(http.StatusOK, c.operator.Desk().Scrubbed()) }

// listAudit is GET /v1/audit.
func listAudit(c *call) error {
	cursor, limit, err := c.page()
	if err != nil {
		return err
	}
	records, err := c.operator.Desk().AuditRecords(c.r.Context(), cursor, limit)
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, records)
}

// verifyAudit is POST /v1/audit/verify. It changes nothing: it is no GET for the
// heads that come with it.
func verifyAudit(c *call) error {
	var in wire.AuditCheck
	if err := c.read(&in); err != nil {
		return err
	}
	report, err := c.operator.Desk().VerifyAudit(c.r.Context(), in.Heads)
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, report)
}
