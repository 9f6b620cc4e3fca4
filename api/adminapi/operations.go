package adminapi

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/httpapi"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/engine/audit"
)

func (h *handlers) healthRoutes(gatherer prometheus.Gatherer) []httpapi.Route {
	health := append(httpapi.Answers[wire.Health](http.StatusOK, "It is."), httpapi.Answers[wire.Health](http.StatusServiceUnavailable, "It is not.")...)
	metrics := promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, DisableCompression: true})
	return []httpapi.Route{
		{Method: "GET", Pattern: "/healthz", ID: "isAlive", Tag: "health", Summary: "Check whether the process is alive", Answers: health, Handle: h.isAlive},
		{
			Method: "GET", Pattern: "/readyz", ID: "isReady", Tag: "health", Summary: "Check whether the node is ready, for all of its roles or for one",
			Params:  []httpapi.Param{httpapi.Query("role", "Which role.", httpapi.Schema{"type": "string", "enum": []string{"api", "walk"}})},
			Answers: health, Handle: h.isReady,
		},
		{
			Method: "GET", Pattern: "/metrics", ID: "getMetrics", Tag: "health", Summary: "Metrics for Prometheus",
			Answers: []httpapi.Answer{{Status: http.StatusOK, About: "Metrics.", Content: httpapi.Content{{Type: "text/plain", Schema: httpapi.Schema{"type": "string"}}}}},
			Handle: func(c *httpapi.Call) error {
				metrics.ServeHTTP(c.ResponseWriter(), c.Request)
				return nil
			},
		},
	}
}

// isAlive is GET /healthz. A process that can no longer store anything durably
// should be ended; one that is only not ready is alive.
func (h *handlers) isAlive(c *httpapi.Call) error {
	health := h.operator.Health(c.Context())
	if health.Roles["store"] != "ready" {
		return c.JSON(http.StatusServiceUnavailable, health)
	}
	return c.JSON(http.StatusOK, health)
}

// isReady is GET /readyz. Lag makes the walking role not ready, and never the API,
// because items end without a walk (trap 17).
func (h *handlers) isReady(c *httpapi.Call) error {
	health := h.operator.Health(c.Context())
	if role := c.Request.URL.Query().Get("role"); role != "" {
		state, known := health.Roles[role]
		if !known {
			return mayfly.Errorf(mayfly.Invalid, "unknown role %.20q", role).WithHint("ask for api or walk")
		}
		health.Ready = state == "ready"
	}
	if !health.Ready {
		return c.JSON(http.StatusServiceUnavailable, health)
	}
	return c.JSON(http.StatusOK, health)
}

func (h *handlers) supportRoutes() []httpapi.Route {
	return []httpapi.Route{
		h.heldRoute(),
		{
			Method: "GET", Pattern: "/v1/explain/{id}", ID: "explain", Tag: "support", Scopes: support(),
			Summary: "Explain why a story is visible to a viewer, or not",
			Params: []httpapi.Param{
				httpapi.Query("viewer", "A user, anonymous, or moderator; default anonymous.", httpapi.Schema{"type": "string", "maxLength": 257}),
				httpapi.Query("at", "At which instant; default now.", httpapi.Schema{"type": "string", "format": "date-time"}),
			},
			Answers: httpapi.Answers[wire.Explanation](http.StatusOK, "Sentences, then the facts."), Handle: h.explain,
		},
		withReason(httpapi.Route{
			Method: "PUT", Pattern: "/v1/holds/{id}", ID: "hold", Tag: "support", Scopes: support(), Problems: itemProblems(),
			Summary: "Hold an item: only moderators see it, and nothing of it is erased", Answers: done(), Handle: h.hold,
		}),
		withReason(httpapi.Route{
			Method: "DELETE", Pattern: "/v1/holds/{id}", ID: "release", Tag: "support", Scopes: support(), Problems: itemProblems(),
			Summary: "Release an item", Answers: done(), Handle: h.release,
		}),
		{
			Method: "POST", Pattern: "/v1/restores", ID: "restore", Tag: "support", Scopes: support(), Problems: itemProblems(), MaxBody: smallBody,
			Summary: "Restore a story, or undo a run of a walk", Body: httpapi.JSONOf[wire.RestoreRequest](),
			Answers: httpapi.Answers[wire.Restored](http.StatusOK, "The result."), Example: `-H 'Content-Type: application/json' -d '{"id":"…","reason":"…"}'`, Handle: h.restore,
		},
		withReason(httpapi.Route{
			Method: "DELETE", Pattern: "/v1/users/{user}", ID: "eraseAccount", Tag: "support", Scopes: admin(), Problems: itemProblems(),
			Summary: "Erase everything of a user, except items that are held",
			Answers: httpapi.Answers[wire.Receipt](http.StatusOK, "What was erased so far; a second pass follows."), Handle: h.eraseAccount,
		}),
		{
			Method: "POST", Pattern: "/v1/denied-tokens", ID: "denyToken", Tag: "support", Scopes: admin(), MaxBody: smallBody,
			Summary: "Refuse an access token before its end", Body: httpapi.JSONOf[wire.TokenDenial](),
			Answers: done(), Example: `-H 'Content-Type: application/json' -d '{"token":"…","reason":"…"}'`, Handle: h.denyToken,
		},
	}
}

// denyToken is POST /v1/denied-tokens.
func (h *handlers) denyToken(c *httpapi.Call) error {
	var in wire.TokenDenial
	if err := c.ReadJSON(&in); err != nil {
		return err
	}
	if err := checkReason(in.Reason); err != nil {
		return err
	}
	now, err := confirmedNow(c)
	if err != nil {
		return err
	}
	if err := h.operator.Operations().DenyToken(c.Context(), in, c.Caller.Actor(), now); err != nil {
		return err
	}
	return c.NoContent()
}

// explain is GET /v1/explain/{id}.
func (h *handlers) explain(c *httpapi.Call) error {
	id, err := c.ItemID("id")
	if err != nil {
		return err
	}
	viewer, err := h.parseViewer(c.Request.URL.Query().Get("viewer"))
	if err != nil {
		return err
	}
	at, err := c.QueryInstant("at", c.Now)
	if err != nil {
		return err
	}
	explanation, err := h.operator.Explain(c.Context(), id, viewer, at)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, explanation)
}

func (h *handlers) parseViewer(text string) (mayfly.Viewer, error) {
	switch text {
	case "", "anonymous":
		return mayfly.Viewer{}, nil
	case "moderator":
		return mayfly.ModeratorOf(mayfly.UserID{}), nil
	}
	user, err := h.accounts.UserNamed(text)
	if err != nil {
		return mayfly.Viewer{}, err
	}
	return mayfly.ViewerOf(user), nil
}

// hold is PUT /v1/holds/{id}.
func (h *handlers) hold(c *httpapi.Call) error { return changeItem(c, h.operator.Restore().Hold) }

// release is DELETE /v1/holds/{id}.
func (h *handlers) release(c *httpapi.Call) error {
	return changeItem(c, h.operator.Restore().Release)
}

func changeItem(c *httpapi.Call, do func(ctx context.Context, id mayfly.ID, by audit.Actor, reason string, now mayfly.Instant) error) error {
	id, err := c.ItemID("id")
	if err != nil {
		return err
	}
	return change(c, func(by audit.Actor, reason string, now mayfly.Instant) error {
		return do(c.Context(), id, by, reason, now)
	})
}

// restore is POST /v1/restores.
func (h *handlers) restore(c *httpapi.Call) error {
	var in wire.RestoreRequest
	if err := c.ReadJSON(&in); err != nil {
		return err
	}
	if err := checkReason(in.Reason); err != nil {
		return err
	}
	now, err := confirmedNow(c)
	if err != nil {
		return err
	}
	restored, err := h.operator.Operations().Restore(c.Context(), in, c.Caller.Actor(), nil, now)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, restored)
}

// eraseAccount is DELETE /v1/users/{user}.
func (h *handlers) eraseAccount(c *httpapi.Call) error {
	user, err := c.User("user")
	if err != nil {
		return err
	}
	reason, err := readReason(c)
	if err != nil {
		return err
	}
	now, err := confirmedNow(c)
	if err != nil {
		return err
	}
	receipt, err := h.operator.AccountErase().Account(c.Context(), user, c.Caller.Actor(), reason, now)
	if err != nil {
		return err
	}
	out := wire.Receipt{
		User: receipt.User, Done: receipt.Finished != 0, Held: len(receipt.Held) + receipt.HeldMore,
		Counts: map[string]int64{"items": int64(receipt.Items), "objects": int64(receipt.Objects)},
	}
	for table, n := range receipt.Rows {
		out.Counts[table] = int64(n)
	}
	return c.JSON(http.StatusOK, out)
}

func (h *handlers) walkRoutes() []httpapi.Route {
	step := httpapi.PathParam("step", "The step of the item's life.", "announce|expire|archive|erase|tidy|retire")
	return []httpapi.Route{
		{
			Method: "GET", Pattern: "/v1/walks", ID: "listWalks", Tag: "walks", Scopes: admin(), Summary: "Show the progress of every walk",
			Answers: httpapi.Answers[wire.Walks](http.StatusOK, "Every walk in every shard."), Handle: h.listWalks,
		},
		{
			Method: "GET", Pattern: "/v1/runs", ID: "listRuns", Tag: "walks", Scopes: support(), Summary: "List what walks did, by the hour: what a restore can undo",
			Params: append([]httpapi.Param{
				httpapi.Query("from", "Only runs that began at or after this instant; default 24 h ago.", httpapi.Schema{"type": "string", "format": "date-time"}),
			}, httpapi.Paging()...),
			Answers: httpapi.Answers[wire.Runs](http.StatusOK, "A page of runs."), Handle: h.listRuns,
		},
		{
			Method: "GET", Pattern: "/v1/dead-letters", ID: "listDeadLetters", Tag: "walks", Scopes: admin(), Summary: "List steps that were given up after their last try",
			Params: append([]httpapi.Param{
				httpapi.Query("item", "Only those of this item.", httpapi.Schema{"type": "string", "maxLength": 36}),
				httpapi.Query("step", "Only those of this step.", httpapi.Schema{"type": "string", "maxLength": 16}),
			}, httpapi.Paging()...),
			Answers: httpapi.Answers[wire.DeadLetters](http.StatusOK, "A page of dead letters."), Handle: h.listDeadLetters,
		},
		withReason(httpapi.Route{
			Method: "POST", Pattern: "/v1/dead-letters/{item}/{step}/retry", ID: "retryDeadLetter", Tag: "walks", Scopes: admin(), Problems: itemProblems(), Params: []httpapi.Param{step},
			Summary: "Try a step again", Answers: done(), Handle: func(c *httpapi.Call) error { return changeDeadLetter(c, h.operator.Operations().RetryDead) },
		}),
		withReason(httpapi.Route{
			Method: "DELETE", Pattern: "/v1/dead-letters/{item}/{step}", ID: "dropDeadLetter", Tag: "walks", Scopes: admin(), Problems: itemProblems(), Params: []httpapi.Param{step},
			Summary: "Give up a step for good", Answers: done(), Handle: func(c *httpapi.Call) error { return changeDeadLetter(c, h.operator.Operations().DropDead) },
		}),
	}
}

// backlogLag is the lag from which a walk has a backlog.
const backlogLag = time.Minute

// listWalks is GET /v1/walks.
func (h *handlers) listWalks(c *httpapi.Call) error {
	out := wire.Walks{Walks: []wire.Walk{}}
	for _, p := range h.operator.Progress("") {
		out.Walks = append(out.Walks, wire.Walk{
			Name: p.Walk, Shard: int(p.Shard), Watermark: p.Watermark, LagMS: p.Lag.Milliseconds(),
			Backlog: p.Lag >= backlogLag, ETASecs: max(0, p.ETA.Seconds()),
		})
	}
	return c.JSON(http.StatusOK, out)
}

// defaultRunsSpan is how far back runs are listed without a from.
const defaultRunsSpan = 24 * time.Hour

// listRuns is GET /v1/runs.
func (h *handlers) listRuns(c *httpapi.Call) error {
	cursor, limit, err := c.Page()
	if err != nil {
		return err
	}
	from, err := c.QueryInstant("from", c.Now.Add(-defaultRunsSpan))
	if err != nil {
		return err
	}
	runs, err := h.operator.Operations().Runs(c.Context(), from, cursor, limit, c.Now)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, runs)
}

// listDeadLetters is GET /v1/dead-letters.
func (h *handlers) listDeadLetters(c *httpapi.Call) error {
	cursor, limit, err := c.Page()
	if err != nil {
		return err
	}
	q := c.Request.URL.Query()
	var item mayfly.ID
	if text := q.Get("item"); text != "" {
		if item, err = mayfly.ParseID(text); err != nil {
			return err
		}
	}
	letters, err := h.operator.Operations().DeadLetters(c.Context(), item, q.Get("step"), cursor, limit)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, letters)
}

func changeDeadLetter(c *httpapi.Call, do func(ctx context.Context, item mayfly.ID, step string, by audit.Actor, reason string, now mayfly.Instant) error) error {
	item, err := c.ItemID("item")
	if err != nil {
		return err
	}
	return change(c, func(by audit.Actor, reason string, now mayfly.Instant) error {
		return do(c.Context(), item, c.Request.PathValue("step"), by, reason, now)
	})
}

func (h *handlers) upkeepRoutes() []httpapi.Route {
	return []httpapi.Route{
		{
			Method: "GET", Pattern: "/v1/orphans", ID: "findOrphans", Tag: "upkeep", Scopes: admin(), Summary: "Find media that no item owns, and erase nothing",
			Answers: httpapi.Answers[wire.Orphans](http.StatusOK, "What would be erased."), Handle: func(c *httpapi.Call) error { return h.orphans(c, "") },
		},
		withReason(httpapi.Route{
			Method: "DELETE", Pattern: "/v1/orphans", ID: "eraseOrphans", Tag: "upkeep", Scopes: admin(), Problems: []int{http.StatusConflict},
			Summary: "Erase media that no item owns: at most 0.1 % of the objects that were examined",
			Answers: httpapi.Answers[wire.Orphans](http.StatusOK, "What was erased."), Handle: h.eraseOrphans,
		}),
		{
			Method: "GET", Pattern: "/v1/scrub", ID: "getScrub", Tag: "upkeep", Scopes: admin(), Summary: "Show what re-reading cold copies has found since the start",
			Answers: httpapi.Answers[wire.Scrub](http.StatusOK, "The findings."),
			Handle:  func(c *httpapi.Call) error { return c.JSON(http.StatusOK, h.operator.Operations().Scrubbed()) },
		},
		{
			Method: "GET", Pattern: "/v1/purges", ID: "listPurges", Tag: "upkeep", Scopes: admin(), Summary: "List purges of the edge that are not verified",
			Params: httpapi.Paging(), Answers: httpapi.Answers[wire.Purges](http.StatusOK, "A page of purges."), Handle: h.listPurges,
		},
		{
			Method: "GET", Pattern: "/v1/audit", ID: "listAudit", Tag: "audit", Scopes: admin(), Summary: "List what support and operators did, newest first",
			Params: httpapi.Paging(), Answers: httpapi.Answers[wire.AuditRecords](http.StatusOK, "A page of records."), Handle: h.listAudit,
		},
		{
			Method: "POST", Pattern: "/v1/audit/verify", ID: "verifyAudit", Tag: "audit", Scopes: admin(), MaxBody: headsBody, Summary: "Find records that were changed, moved or removed",
			Body: httpapi.JSONOf[wire.AuditCheck](), Answers: httpapi.Answers[wire.AuditReport](http.StatusOK, "The report."),
			Example: `-H 'Content-Type: application/json' -d '{}'`, Handle: h.verifyAudit,
		},
	}
}

// eraseOrphans is DELETE /v1/orphans.
func (h *handlers) eraseOrphans(c *httpapi.Call) error {
	reason, err := readReason(c)
	if err != nil {
		return err
	}
	return h.orphans(c, reason)
}

// orphans looks for orphans, and erases them if there is a reason to. It examines
// as many objects as the node's own collector does in one run, so that it ends.
func (h *handlers) orphans(c *httpapi.Call, reason string) error {
	now, err := confirmedNow(c)
	if err != nil {
		return err
	}
	found, err := h.operator.Operations().Orphans(c.Context(), c.Caller.Actor(), reason, 0, now)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, found)
}

// listAudit is GET /v1/audit.
func (h *handlers) listAudit(c *httpapi.Call) error {
	cursor, limit, err := c.Page()
	if err != nil {
		return err
	}
	records, err := h.operator.Operations().AuditRecords(c.Context(), cursor, limit)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, records)
}

// verifyAudit is POST /v1/audit/verify. It changes nothing; it is not a GET
// because of the heads in its body.
func (h *handlers) verifyAudit(c *httpapi.Call) error {
	var in wire.AuditCheck
	if err := c.ReadJSON(&in); err != nil {
		return err
	}
	report, err := h.operator.Operations().VerifyAudit(c.Context(), in.Heads)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, report)
}

// listPurges is GET /v1/purges.
func (h *handlers) listPurges(c *httpapi.Call) error {
	cursor, limit, err := c.Page()
	if err != nil {
		return err
	}
	purges, err := h.operator.Operations().Purges(c.Context(), cursor, limit)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, purges)
}
