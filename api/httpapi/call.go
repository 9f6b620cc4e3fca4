package httpapi

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"runtime/debug"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/product/account"
)

// call is one request on its way through the doors.
type call struct {
	*API
	route *route
	cors  origins // those that this listener is open to
	w     *answer
	r     *http.Request
	body  *body
	id    string // of the request
	who   account.Principal
	from  netip.Addr
	now   mayfly.Instant // at arrival: what everything about this request is judged by

	ends   mayfly.Instant // when the first of what the answer carries ends for its reader; 0: nothing does
	sentAt mayfly.Instant // the instant of the first byte, as late read it
	gone   error          // why the answer could not be written
}

// handler is a route with everything around it.
func (a *API) handler(rt route, cors origins) http.Handler {
	meter := a.metrics.of(rt)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun := time.Now()
		c := &call{API: a, route: &rt, cors: cors, r: r, now: a.clock.Read().Now, id: requestID(r)}
		c.w = &answer{ResponseWriter: w, control: http.NewResponseController(w), head: r.Method == http.MethodHead, within: answerWithin(r, a.o.BodyWithin), first: c.measure}
		c.body = newBody(w, r, rt.most, a.o.BodyWithin)
		a.metrics.underway.Inc()
		end := c.trace()
		defer func() { // an answer that is broken off, too, was under way
			a.metrics.underway.Dec()
			took := time.Since(begun)
			meter.answered(c.w.status, took)
			end()
			c.logged(took)
		}()
		defer func() {
			if p := recover(); p != nil {
				c.recovered(p)
			}
		}()
		c.serve()
	})
}

// serve does what stands around every operation, then the operation.
func (c *call) serve() {
	c.headers()
	if c.cors.allow(c.w.Header(), c.r) {
		c.w.WriteHeader(http.StatusNoContent)
		return
	}
	if err := c.admit(); err != nil {
		c.fail(err)
		return
	}
	err := c.route.do(c)
	switch {
	case err == nil:
	case c.w.status != 0: // too late for another answer: the client must see that this one is not whole
		c.log.WarnContext(c.r.Context(), "answer broken off", "request", c.id, "route", c.route.pattern, "error", err)
		panic(http.ErrAbortHandler)
	default:
		c.fail(err)
	}
}

// headers are those of every answer.
func (c *call) headers() {
	h := c.w.Header()
	h["Mayfly-Request"] = []string{c.id}
	h["X-Content-Type-Options"] = []string{"nosniff"}
	h["Content-Security-Policy"] = []string{"default-src 'none'; sandbox; frame-ancestors 'none'"}
	h["Referrer-Policy"] = []string{"no-referrer"}
	h["Cache-Control"] = []string{"private, no-store"}
	h["Cross-Origin-Resource-Policy"] = []string{"cross-origin"} // who may read is said by CORS and by the token
}

// recovered answers for a panic, which is a fault of ours.
func (c *call) recovered(p any) {
	if p == http.ErrAbortHandler { //nolint:errorlint // compared as net/http does
		panic(p)
	}
	c.log.ErrorContext(c.r.Context(), "panic", "request", c.id, "route", c.route.pattern, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	if c.w.status == 0 {
		c.ends = 0
		c.fail(errPanic)
		return
	}
	panic(http.ErrAbortHandler)
}

var errPanic = errors.New("panic")

// logged writes the line of a request: never a query, a token, a user or
// anything that a user wrote (C7).
func (c *call) logged(took time.Duration) {
	level := slog.LevelInfo
	switch {
	case c.w.status >= 500 && !c.route.replies(c.w.status):
		level = slog.LevelError
	case !c.route.changes():
		level = slog.LevelDebug
	}
	if !c.log.Enabled(c.r.Context(), level) {
		return
	}
	c.log.LogAttrs(c.r.Context(), level, "request",
		slog.String("method", c.r.Method), slog.String("route", c.route.pattern), slog.Int("status", c.w.status),
		slog.Duration("took", took), slog.String("request", c.id), slog.Int64("bytes", c.w.bytes))
}
