package httpapi

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"runtime/debug"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/clock"
	"github.com/mayflyhq/mayfly/product/account"
)

// Call is an HTTP request being handled.
type Call struct {
	Request *http.Request
	Caller  account.Principal // who calls; zero without a token
	Key     mayfly.Secret     // a key of the product that was sent in the place of a token, not checked
	Address netip.Addr        // where the call comes from
	Now     mayfly.Instant    // when it arrived: everything about this request is decided by this instant
	Body    *Body

	api    *API
	route  *Route
	meter  *meter
	cors   origins // the web origins that this listener allows
	w      *responseWriter
	id     string         // of the request
	ends   mayfly.Instant // when the first item of the answer ends for the caller; 0: none ends
	sentAt mayfly.Instant // when the first byte was sent, as isLate has read it
	values [14]string     // of the headers of the answer
	used   int            // how many of values

	compress bool // the answer may be compressed
}

// Context returns the context of the request.
func (c *Call) Context() context.Context { return c.Request.Context() }

// Header returns the headers of the answer.
func (c *Call) Header() http.Header { return c.w.Header() }

// ResponseWriter returns where the answer goes, for handlers of other libraries.
func (c *Call) ResponseWriter() http.ResponseWriter { return c.w }

// ReadClock reads the node's clock again, for what happens later than Now.
func (c *Call) ReadClock() clock.Reading { return c.api.clock.Read() }

// URL returns the absolute URL of a path, or the path if the API does not know by
// which URL users reach it.
func (c *Call) URL(path string) string { return c.api.o.PublicURL + path }

// AbsoluteURL returns the absolute URL of a path on a host; an empty host is the one
// by which users reach the API, or, if that is not known, the one of this request.
func (c *Call) AbsoluteURL(host, path string) string {
	base := c.api.publicURL
	if base == nil {
		base = &url.URL{Scheme: "http", Host: c.Request.Host}
		if c.Request.TLS != nil {
			base.Scheme = "https"
		}
	}
	if host == "" {
		host = base.Host
	} else if port := base.Port(); port != "" && !strings.Contains(host, ":") {
		host += ":" + port
	}
	return base.Scheme + "://" + host + strings.TrimSuffix(base.Path, "/") + path
}

// Warn logs something that went wrong without being an error of the call.
func (c *Call) Warn(message string, err error) {
	c.api.log.WarnContext(c.Context(), message, "request", c.id, "route", c.route.Pattern, "error", err)
}

// handler returns the handler of a route, with everything that every route has.
func (a *API) handler(rt Route, cors origins) http.Handler {
	if rt.Product == "" {
		rt.Product = kernelProduct
	}
	meter := a.metrics.of(rt)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun := time.Now()
		c := &Call{api: a, route: &rt, meter: meter, cors: cors, Request: r, Now: a.clock.Read().Now, id: requestID(r)}
		c.w = &responseWriter{ResponseWriter: w, control: http.NewResponseController(w), head: r.Method == http.MethodHead, timeout: answerTimeout(r, a.o.BodyTimeout), first: c.measureLateness}
		c.Body = newBody(w, r, rt.MaxBody, a.o.BodyTimeout)
		a.metrics.underway.Inc()
		endTrace := c.startTrace()
		defer func() { // also when the answer is aborted by a panic
			a.metrics.underway.Dec()
			took := time.Since(begun)
			meter.answered(c.w.status, took)
			endTrace()
			c.logRequest(took)
		}()
		defer func() {
			if p := recover(); p != nil {
				c.recovered(p)
			}
		}()
		c.serve()
	})
}

// serve does what every operation has in common, then the operation.
func (c *Call) serve() {
	c.setHeaders()
	if c.cors.allow(c.w.Header(), c.Request) {
		c.w.WriteHeader(http.StatusNoContent)
		return
	}
	if err := c.authorize(); err != nil {
		c.fail(err)
		return
	}
	err := c.route.Handle(c)
	switch {
	case err == nil:
	case c.w.status != 0: // too late for a problem: the client must notice that the answer is not complete
		if !c.clientLeft() {
			c.Warn("answer aborted", err)
		}
		panic(http.ErrAbortHandler)
	default:
		c.fail(err)
	}
}

// setHeaders sets the headers that every answer has.
func (c *Call) setHeaders() {
	c.set("Mayfly-Request", c.id)
	c.set("X-Content-Type-Options", "nosniff")
	c.set("Content-Security-Policy", "default-src 'none'; sandbox; frame-ancestors 'none'")
	c.set("Referrer-Policy", "no-referrer")
	c.set("Cache-Control", noStore)
	c.set("Cross-Origin-Resource-Policy", "cross-origin") // CORS and the token decide who may read
}

// set sets a header by its canonical name, without an allocation of its own.
func (c *Call) set(name, value string) {
	if c.used == len(c.values) {
		c.w.Header()[name] = []string{value}
		return
	}
	c.values[c.used] = value
	c.used++
	c.w.Header()[name] = c.values[c.used-1 : c.used : c.used]
}

const noStore = "private, no-store"

// recovered answers after a panic of a handler, which is a bug.
func (c *Call) recovered(p any) {
	if p == http.ErrAbortHandler { //nolint:errorlint // compared as net/http does
		panic(p)
	}
	c.api.log.ErrorContext(c.Context(), "panic", "request", c.id, "route", c.route.Pattern, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	if c.w.status == 0 {
		c.ends = 0
		c.fail(errPanic)
		return
	}
	panic(http.ErrAbortHandler)
}

var errPanic = errors.New("panic")

// logRequest writes one line about the request: never a query, a token, a user or
// anything that a user wrote (C7).
func (c *Call) logRequest(took time.Duration) {
	level := slog.LevelInfo
	switch {
	case c.w.status >= 500 && !c.route.hasAnswer(c.w.status):
		level = slog.LevelError
	case !c.route.Changes():
		level = slog.LevelDebug
	}
	if !c.api.log.Enabled(c.Context(), level) {
		return
	}
	c.api.log.LogAttrs(c.Context(), level, "request",
		slog.String("method", c.Request.Method), slog.String("route", c.route.Pattern), slog.Int("status", c.w.status),
		slog.Duration("took", took), slog.String("request", c.id), slog.Int64("bytes", c.w.bytes))
}

// startTrace starts the span of a request, if there is a tracer, and returns what
// ends it. No attribute identifies a user or an item. Only a trusted proxy may
// continue a trace: other callers could have every request recorded.
func (c *Call) startTrace() (end func()) {
	if c.api.o.Tracer == nil {
		return func() {}
	}
	ctx := c.Context()
	if peer, err := netip.ParseAddrPort(c.Request.RemoteAddr); err == nil && c.api.proxies.Trust(peer.Addr().Unmap()) {
		ctx = propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(c.Request.Header))
	}
	ctx, span := c.api.o.Tracer.Start(ctx, c.route.String(), trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.String("http.request.method", c.Request.Method), attribute.String("http.route", c.route.Pattern), attribute.String("mayfly.request", c.id),
	))
	c.Request = c.Request.WithContext(ctx)
	return func() {
		span.SetAttributes(attribute.Int("http.response.status_code", c.w.status))
		if c.w.status >= 500 {
			span.SetStatus(codes.Error, "")
		}
		span.End()
	}
}

// maxRequestID is the length of the longest request id that is accepted.
const maxRequestID = 64

// requestID returns the caller's id of the request if it consists of harmless
// characters, so that one id can follow a request through several systems; else a
// new one.
func requestID(r *http.Request) string {
	if id := r.Header.Get("Mayfly-Request"); harmless(id) {
		return id
	}
	return rand.Text()[:20]
}

func harmless(s string) bool {
	if s == "" || len(s) > maxRequestID {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return true
}
