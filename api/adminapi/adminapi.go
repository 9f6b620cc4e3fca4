// Package adminapi serves what operators and support use, on the admin listener:
// health, metrics, explanations, walks, holds, restores, dead letters, account
// erasure, denied tokens, upkeep, the key-value store, the audit log and profiles. It returns its routes
// to package httpapi.
//
// Every operation that changes something needs a reason, which the audit log
// keeps (C6), and is refused while the clock is in doubt (L7).
package adminapi

import (
	"context"
	"net/http"
	"net/http/pprof"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/httpapi"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/engine/accounterase"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/restore"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/product/account"
)

// Product is the name of these routes in metrics.
const Product = "admin"

// Operator is what the admin API needs of a node.
type Operator interface {
	Health(ctx context.Context) wire.Health
	Explain(ctx context.Context, id mayfly.ID, viewer mayfly.Viewer, at mayfly.Instant) (wire.Explanation, error)
	Progress(walk string) []walk.Progress
	Restore() *restore.Restore
	AccountErase() *accounterase.Eraser
	Operations() Operations
}

// Operations are what support and operators do, in the types of package wire. The
// command line uses the same operations on a folder that no node serves.
type Operations interface {
	Restore(ctx context.Context, in wire.RestoreRequest, by audit.Actor, progress func(done, of int), now mayfly.Instant) (wire.Restored, error)
	Runs(ctx context.Context, from mayfly.Instant, cursor string, limit int, now mayfly.Instant) (wire.Runs, error)
	DeadLetters(ctx context.Context, item mayfly.ID, step, cursor string, limit int) (wire.DeadLetters, error)
	RetryDead(ctx context.Context, item mayfly.ID, step string, by audit.Actor, reason string, now mayfly.Instant) error
	DropDead(ctx context.Context, item mayfly.ID, step string, by audit.Actor, reason string, now mayfly.Instant) error
	DenyToken(ctx context.Context, in wire.TokenDenial, by audit.Actor, now mayfly.Instant) error
	Orphans(ctx context.Context, by audit.Actor, reason string, most int, now mayfly.Instant) (wire.Orphans, error)
	Scrubbed() wire.Scrub
	KVStatus(ctx context.Context) (wire.KVStatus, error)
	AddKVKey(ctx context.Context, namespace string, by audit.Actor, reason string, now mayfly.Instant) (wire.KVCredential, error)
	RemoveKVKey(ctx context.Context, namespace, id string, by audit.Actor, reason string, now mayfly.Instant) error
	CheckFeed(ctx context.Context, cursor string, now mayfly.Instant) (wire.FeedCheck, error)
	ImportFeed(ctx context.Context, in wire.FeedImport, by audit.Actor, now func() mayfly.Instant) (wire.FeedImported, error)
	References(ctx context.Context, user mayfly.UserID) (wire.References, error)
	Purges(ctx context.Context, cursor string, limit int) (wire.Purges, error)
	AuditRecords(ctx context.Context, cursor string, limit int) (wire.AuditRecords, error)
	VerifyAudit(ctx context.Context, heads []string) (wire.AuditReport, error)
}

type handlers struct {
	operator Operator
	accounts *account.Accounts
}

const (
	smallBody = 16 << 10
	headsBody = 2 << 20 // about ten thousand heads of the audit log
)

// Routes returns the routes of the admin listener. Metrics are those that
// gatherer has.
func Routes(operator Operator, accounts *account.Accounts, gatherer prometheus.Gatherer) []httpapi.Route {
	h := &handlers{operator, accounts}
	routes := h.healthRoutes(gatherer)
	routes = append(routes, h.supportRoutes()...)
	routes = append(routes, h.walkRoutes()...)
	routes = append(routes, h.upkeepRoutes()...)
	routes = append(routes, h.kvRoutes()...)
	routes = append(routes, h.feedRoutes()...)
	routes = append(routes, profileRoutes()...)
	for i := range routes {
		routes[i].Admin, routes[i].Product = true, Product
	}
	return routes
}

func admin() []account.Scope   { return []account.Scope{account.Admin} }
func support() []account.Scope { return []account.Scope{account.Admin, account.Moderator} }

func done() []httpapi.Answer {
	return []httpapi.Answer{{Status: http.StatusNoContent, About: "Done, and recorded in the audit log."}}
}

// itemProblems are the statuses of an operation on an item that cannot be done.
func itemProblems() []int {
	return []int{http.StatusNotFound, http.StatusGone, http.StatusConflict}
}

// withReason returns the route with a body that has the reason of the operation.
func withReason(rt httpapi.Route) httpapi.Route {
	rt.Body, rt.MaxBody = httpapi.JSONOf[wire.Reason](), smallBody
	rt.Example = `-H 'Content-Type: application/json' -d '{"reason":"…"}'`
	return rt
}

// maxReason is the length of the longest reason.
const maxReason = 1000

func checkReason(reason string) error {
	if reason == "" || len(reason) > maxReason {
		return mayfly.Errorf(mayfly.Invalid, "a reason of 1 to %d bytes is required", maxReason).WithHint("say in reason why; the audit log keeps it")
	}
	return nil
}

// readReason reads the reason of an operation.
func readReason(c *httpapi.Call) (string, error) {
	var in wire.Reason
	if err := c.ReadJSON(&in); err != nil {
		return "", err
	}
	return in.Reason, checkReason(in.Reason)
}

// confirmedNow returns the time of an operation, or why nothing may be done now
// (L7).
func confirmedNow(c *httpapi.Call) (mayfly.Instant, error) {
	r := c.ReadClock()
	return r.Steady, r.Err
}

// change reads the reason of an operation, does it at a confirmed time and answers
// with 204.
func change(c *httpapi.Call, do func(by audit.Actor, reason string, now mayfly.Instant) error) error {
	reason, err := readReason(c)
	if err != nil {
		return err
	}
	now, err := confirmedNow(c)
	if err != nil {
		return err
	}
	if err := do(c.Caller.Actor(), reason, now); err != nil {
		return err
	}
	return c.NoContent()
}

// profileRoutes returns the profiles of the Go runtime.
func profileRoutes() []httpapi.Route {
	route := func(pattern, id, summary string, handler http.HandlerFunc) httpapi.Route {
		return httpapi.Route{
			Method: "GET", Pattern: pattern, ID: id, Tag: "profiles", Scopes: admin(), Summary: summary, Problems: []int{http.StatusNotFound},
			Params: []httpapi.Param{
				httpapi.Query("seconds", "For how long.", httpapi.Schema{"type": "integer", "minimum": 1, "maximum": 60}),
				httpapi.Query("debug", "1 for text.", httpapi.Schema{"type": "integer"}),
			},
			Answers: []httpapi.Answer{{Status: http.StatusOK, About: "A profile, or a page.", Content: httpapi.Content{
				{Type: "application/octet-stream"}, {Type: "text/plain"}, {Type: "text/html"},
			}}},
			Handle: func(c *httpapi.Call) error {
				handler(c.ResponseWriter(), c.Request)
				return nil
			},
		}
	}
	return []httpapi.Route{
		route("/debug/pprof/{$}", "listProfiles", "List the profiles", pprof.Index),
		route("/debug/pprof/{profile}", "getProfile", "Get a profile: heap, goroutine, allocs, block, mutex, threadcreate", pprof.Index),
		route("/debug/pprof/profile", "getCPUProfile", "Profile the CPU", pprof.Profile),
		route("/debug/pprof/trace", "getTrace", "Trace the runtime", pprof.Trace),
	}
}
