package httpapi

import (
	"context"
	"net/http"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/engine/erase"
	"github.com/mayflyhq/mayfly/engine/restore"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/product/account"
)

// Operator is the node, as those see it who operate it.
type Operator interface {
	Health(ctx context.Context) wire.Health
	Explain(ctx context.Context, id mayfly.ID, viewer mayfly.Viewer, at mayfly.Instant) (wire.Explanation, error)
	Progress(walk string) []walk.Progress
	Restore() *restore.Restore
	Erase() *erase.Erase
	Desk() Desk
}

// adminRoutes is the table of everything that operators can call, on a listener
// of their own (C1).
func (a *API) adminRoutes() []route {
	admin := []account.Scope{account.Admin}
	support := []account.Scope{account.Admin, account.Moderator}
	item := []int{http.StatusNotFound, http.StatusGone, http.StatusConflict}
	done := []reply{{status: http.StatusNoContent, about: "Done, and written down."}}
	health := append(answers[wire.Health](http.StatusOK, "It is."), answers[wire.Health](http.StatusServiceUnavailable, "It is not.")...)
	reason := func(rt route) route {
		rt.body, rt.most = jsonOf[wire.Deed](), smallBody
		rt.example = `-H 'Content-Type: application/json' -d '{"reason":"…"}'`
		return rt
	}
	routes := []route{
		{method: "GET", pattern: "/healthz", id: "isAlive", tag: healthTag, summary: "Is the process alive?", answers: health, do: isAlive},
		{
			method: "GET", pattern: "/readyz", id: "isReady", tag: healthTag, summary: "Is the node ready? For what it does, unless a role is asked for",
			params:  []param{query("role", "Which role.", schema{"type": "string", "enum": []string{"api", "walk"}})},
			answers: health, do: isReady,
		},
		{
			method: "GET", pattern: "/metrics", id: "getMetrics", tag: healthTag, summary: "Metrics for Prometheus",
			answers: []reply{{status: http.StatusOK, about: "Metrics.", content: content{{typ: "text/plain", schema: schema{"type": "string"}}}}}, do: a.metricsHandler(),
		},
		{
			method: "GET", pattern: "/v1/explain/{id}", id: "explain", tag: "support", scopes: support,
			summary: "Why is a story visible to somebody, or not?",
			params: []param{
				query("viewer", "A user, or anonymous (unless it is said), or moderator.", schema{"type": "string", "maxLength": 257}),
				query("at", "When; now unless it is said.", schema{"type": "string", "format": "date-time"}),
			},
			answers: answers[wire.Explanation](http.StatusOK, "Sentences, then the facts."), do: explain,
		},
		{
			method: "GET", pattern: "/v1/walks", id: "listWalks", tag: "walks", scopes: admin, summary: "How every walk stands",
			answers: answers[wire.Walks](http.StatusOK, "Every walk in every shard."), do: listWalks,
		},
		reason(route{method: "PUT", pattern: "/v1/holds/{id}", id: "hold", tag: "support", scopes: support, may: item, summary: "Hold an item: hidden from all but moderators, and nothing of it erased", answers: done, do: hold}),
		reason(route{method: "DELETE", pattern: "/v1/holds/{id}", id: "release", tag: "support", scopes: support, may: item, summary: "Release an item", answers: done, do: release}),
		{
			method: "POST", pattern: "/v1/restores", id: "restore", tag: "support", scopes: support, may: item, most: smallBody,
			summary: "Bring a story back, or undo a run of a walk", body: jsonOf[wire.RestoreRequest](),
			answers: answers[wire.Restored](http.StatusOK, "What came of it."), example: `-H 'Content-Type: application/json' -d '{"id":"…","reason":"…"}'`, do: restoreItem,
		},
		{
			method: "GET", pattern: "/v1/dead-letters", id: "listDeadLetters", tag: "walks", scopes: admin, summary: "Steps that were given up after their last try",
			params: append([]param{
				query("item", "Only those of this item.", schema{"type": "string", "maxLength": 36}),
				query("step", "Only those of this step.", schema{"type": "string", "maxLength": 16}),
			}, paging()...),
			answers: answers[wire.DeadLetters](http.StatusOK, "A page of them."), do: listDeadLetters,
		},
		reason(route{method: "POST", pattern: "/v1/dead-letters/{item}/{step}/retry", id: "retryDeadLetter", tag: "walks", scopes: admin, may: item, summary: "Try a step again", answers: done, do: retryDeadLetter}),
		reason(route{method: "DELETE", pattern: "/v1/dead-letters/{item}/{step}", id: "dropDeadLetter", tag: "walks", scopes: admin, may: item, summary: "Give a step up for good", answers: done, do: dropDeadLetter}),
		reason(route{
			method: "DELETE", pattern: "/v1/users/{user}", id: "eraseAccount", tag: "support", scopes: admin, may: item,
			summary: "Erase everything that a user has, but for what is held", answers: answers[wire.Receipt](http.StatusOK, "What was erased so far; a second pass follows."), do: eraseAccount,
		}),
	}
	routes = append(routes, deskRoutes(admin, support, reason)...)
	routes = append(routes, profileRoutes(admin)...)
	return append(routes, a.documentRoute("Mayfly, for operators", "The admin listener of Mayfly.", routes))
}

// reason reads why an operator does something. The audit log wants to know.
func (c *call) reason() (string, error) {
	var deed wire.Deed
	if err := c.read(&deed); err != nil {
		return "", err
	}
	if deed.Reason == "" || len(deed.Reason) > 1000 {
		return "", mayfly.Errorf(mayfly.Invalid, "a deed without a reason").WithHint("say in reason why, in at most 1,000 bytes: it is written down")
	}
	return deed.Reason, nil
}

// deedAt is the time of a deed: nothing is done while the clock is in doubt (L7).
func (c *call) deedAt() (mayfly.Instant, error) {
	r := c.clock.Read()
	return r.Steady, r.Err
}

// deed does something to the item that the path names, with its reason.
func (c *call) deed(do func(ctx context.Context, id mayfly.ID, by, reason string, now mayfly.Instant) error) error {
	id, err := c.item()
	if err != nil {
		return err
	}
	reason, err := c.reason()
	if err != nil {
		return err
	}
	now, err := c.deedAt()
	if err != nil {
		return err
	}
	if err := do(c.r.Context(), id, c.who.Actor(), reason, now); err != nil {
		return err
	}
	return c.noContent()
}
