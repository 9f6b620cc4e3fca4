package httpapi

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/account"
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
		c.w = &answer{ResponseWriter: w, control: http.NewResponseController(w), head: r.Method == http.MethodHead, within: a.o.BodyWithin, first: c.measure}
		c.body = newBody(w, r, rt.most, a.o.BodyWithin)
		a.metrics.underway.Inc()
		end := c.trace()
		defer func() {
			if p := recover(); p != nil {
				c.recovered(p)
			}
			a.metrics.underway.Dec()
			took := time.Since(begun)
			meter.answered(c.w.status, took)
			end()
			c.logged(took)
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

// admit finds out who asks, and whether they may ask this, now.
func (c *call) admit() error {
	if err := plainPath(c.r); err != nil {
		return err
	}
	c.from = c.proxies.clientOf(c.r)
	if err := c.identify(); err != nil {
		return err
	}
	if err := c.allowed(); err != nil {
		return err
	}
	if err := c.within(); err != nil {
		return err
	}
	if c.r.ContentLength > c.route.most && c.route.most > 0 {
		return mayfly.Errorf(mayfly.TooLarge, "the body has %d bytes; %d are allowed", c.r.ContentLength, c.route.most)
	}
	return nil
}

// presented says whether the request came with a token.
func (c *call) presented() bool { return len(c.r.Header.Values("Authorization")) > 0 }

// identify finds out who asks: without a token nobody in particular (C1).
func (c *call) identify() error {
	headers := c.r.Header["Authorization"]
	if len(headers) > 1 {
		return mayfly.Errorf(mayfly.Unauthenticated, "there are two Authorization headers").WithHint("send one")
	}
	if len(headers) == 1 {
		scheme, bearer, ok := strings.Cut(headers[0], " ")
		if !ok || !strings.EqualFold(scheme, "Bearer") {
			return mayfly.Errorf(mayfly.Unauthenticated, "the Authorization header has no Bearer token").WithHint("send Authorization: Bearer with a token")
		}
		who, err := c.accounts.Verify(c.r.Context(), strings.TrimSpace(bearer), c.now)
		if err != nil {
			return err
		}
		c.who = who
	}
	acts := c.r.Header["Mayfly-User"]
	switch {
	case len(acts) == 0:
		return nil
	case len(acts) > 1:
		return mayfly.Errorf(mayfly.Invalid, "there are two Mayfly-User headers").WithHint("send one")
	case len(headers) == 0:
		return mayfly.Errorf(mayfly.Unauthenticated, "Mayfly-User needs a service token").WithHint("send Authorization: Bearer with a token of scope service")
	}
	who, err := c.accounts.ActFor(c.r.Context(), c.who, acts[0])
	if err != nil {
		return err
	}
	c.who = who
	return nil
}

// allowed says whether the token opens this route.
func (c *call) allowed() error {
	switch needed := c.route.scopes; {
	case len(needed) == 0 || slices.ContainsFunc(needed, c.who.Has):
		return nil
	case !c.presented():
		return mayfly.Errorf(mayfly.Unauthenticated, "this needs a token")
	case c.who.Has(account.Service) && slices.Contains(needed, account.User):
		return mayfly.Errorf(mayfly.Denied, "the token names no user").WithHint("a service says in the header Mayfly-User for whom it acts")
	default:
		return mayfly.Errorf(mayfly.Denied, "the token has no scope for this").WithHint("it needs the scope " + orList(needed))
	}
}

func orList(scopes []account.Scope) string {
	words := make([]string, len(scopes))
	for i, s := range scopes {
		words[i] = string(s)
	}
	return strings.Join(words, " or ")
}

// within takes the request from the caller's rate (C3).
func (c *call) within() error {
	var err error
	switch c.route.limit {
	case writeLimit:
		err = c.accounts.TakeWrite(c.r.Context(), c.who, c.from, c.now)
	case readLimit:
		err = c.accounts.TakeRead(c.r.Context(), c.who, c.from, c.now)
	}
	if errors.Is(err, mayfly.Limited) {
		c.metrics.limited.WithLabelValues(string(c.route.limit)).Inc()
	}
	return err
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
	case c.w.status >= 500:
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
