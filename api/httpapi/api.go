// Package httpapi is the kernel of the HTTP API: it turns a table of routes into
// two handlers, one for users and one for operators. For every route it
// authenticates the caller, takes rate limits, reads the request, writes the
// answer or a problem, and describes all of it in /openapi.json.
//
// It knows no product but account: products hand in their routes. It decides
// nothing about visibility, and answers every refusal with the same bytes,
// whatever the reason (ST2, I18). It reads the node's clock, never the system's,
// except to measure durations.
package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/engine/clock"
	"github.com/mayflyhq/mayfly/product/account"
)

// Options are the settings of an API. Accounts and Clock are required.
type Options struct {
	Accounts *account.Accounts
	Clock    *clock.Clock
	Routes   []Route // of all products, for both listeners

	// Open returns why users are not served at the moment, or nil if they are. A nil
	// Open serves always.
	Open func() error
	// Ready reports whether a load balancer should send users to this node. A nil
	// Ready is always true.
	Ready func(context.Context) bool

	// Authenticated is called for every request of a known user, before it is
	// handled. May be nil.
	Authenticated func(ctx context.Context, user mayfly.UserID, now mayfly.Instant)

	PublicURL   string        // the URL by which users reach the API; empty: URLs are relative
	Origins     []string      // web origins that may call from a browser
	Proxies     []string      // networks whose X-Forwarded-For is trusted
	BodyTimeout time.Duration // how long a client may pause while it sends or reads a body; default 30 s
	Edge        bool          // name cacheable answers for the edge (Surrogate-Key, Mayfly-Until)

	Logger   *slog.Logger          // default: no log
	Registry prometheus.Registerer // default: a new registry
	Tracer   trace.Tracer          // nil: no traces
	Version  string                // default "dev"
}

func (o Options) withDefaults() (Options, error) {
	if o.Accounts == nil || o.Clock == nil {
		return o, mayfly.Errorf(mayfly.Invalid, "httpapi: accounts and clock are required")
	}
	if o.BodyTimeout == 0 {
		o.BodyTimeout = 30 * time.Second
	}
	if o.BodyTimeout < 0 {
		return o, mayfly.Errorf(mayfly.Invalid, "httpapi: body timeout %s is negative", o.BodyTimeout)
	}
	if o.Open == nil {
		o.Open = func() error { return nil }
	}
	if o.Ready == nil {
		o.Ready = func(context.Context) bool { return true }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Registry == nil {
		o.Registry = prometheus.NewRegistry()
	}
	if o.Version == "" {
		o.Version = "dev"
	}
	o.PublicURL = strings.TrimSuffix(o.PublicURL, "/")
	if u, err := url.Parse(o.PublicURL); err != nil || o.PublicURL != "" && (u.Host == "" || u.RawQuery != "" || u.Fragment != "") {
		return o, mayfly.Errorf(mayfly.Invalid, "httpapi: public URL %q is not the URL of a server", o.PublicURL).WithHint("write it like https://stories.example.org")
	}
	return o, nil
}

// API is the HTTP API of a node. It is safe for concurrent use.
type API struct {
	o         Options
	accounts  *account.Accounts
	clock     *clock.Clock
	log       *slog.Logger
	metrics   *metrics
	proxies   Proxies
	crossSite *http.CrossOriginProtection
	publicURL *url.URL // nil: not known
	refusals  refusals
	buffers   buffers
	zippers   zippers
	chunks    chunks
	routes    []Route
	draining  chan struct{} // closed by Drain
	drainOnce sync.Once
	public    http.Handler
	admin     http.Handler
}

// New returns the API of a table of routes.
func New(o Options) (*API, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	a := &API{o: o, accounts: o.Accounts, clock: o.Clock, log: o.Logger, refusals: newRefusals(), draining: make(chan struct{})}
	cors, err := parseOrigins(o.Origins)
	if err != nil {
		return nil, err
	}
	if a.crossSite, err = crossSiteProtection(o.Origins); err != nil {
		return nil, err
	}
	if o.PublicURL != "" {
		if a.publicURL, err = url.Parse(o.PublicURL); err != nil {
			return nil, err // not reached: withDefaults has parsed it
		}
	}
	if a.proxies, err = ParseProxies(o.Proxies); err != nil {
		return nil, err
	}
	if a.metrics, err = newMetrics(o.Registry); err != nil {
		return nil, err
	}
	public, admin, err := a.tables()
	if err != nil {
		return nil, err
	}
	a.routes = append(public, admin...)
	cors.headers(public)
	if a.public, err = a.listener(public, cors); err != nil {
		return nil, err
	}
	a.admin, err = a.listener(admin, origins{}) // no web page calls the admin listener
	return a, err
}

// Public returns the handler of the listener for users.
func (a *API) Public() http.Handler { return a.public }

// Admin returns the handler of the listener for operators.
func (a *API) Admin() http.Handler { return a.admin }

// Routes returns every route of both listeners, those of the kernel too.
func (a *API) Routes() []Route { return slices.Clone(a.routes) }

// tables returns the routes of the two listeners, with those of the kernel.
func (a *API) tables() (public, admin []Route, err error) {
	for _, rt := range a.o.Routes {
		if err := rt.validate(); err != nil {
			return nil, nil, err
		}
		if rt.Admin {
			admin = append(admin, rt)
		} else {
			public = append(public, rt)
		}
	}
	public = append(public, a.readinessRoute(http.MethodGet), a.readinessRoute(http.MethodHead))
	pages, err := a.pageRoutes(public)
	if err != nil {
		return nil, nil, err
	}
	document, err := a.documentRoute("Mayfly, for operators", "The admin listener of Mayfly.", admin)
	if err != nil {
		return nil, nil, err
	}
	document.Admin = true
	return append(public, pages...), append(admin, document), nil
}

// listener returns the handler of a table of routes.
func (a *API) listener(routes []Route, cors origins) (h http.Handler, err error) {
	defer func() {
		if p := recover(); p != nil { // ServeMux panics when two patterns conflict
			err = fmt.Errorf("httpapi: routes: %v", p)
		}
	}()
	mux := http.NewServeMux()
	methods, hosts, all := map[string]bool{}, map[string]bool{}, map[string]http.Handler{}
	literal := map[string]map[string]bool{} // the methods of paths without parameters
	for _, rt := range routes {
		methods[rt.Method], hosts[rt.Host] = true, true
		if path := rt.Path(); !strings.Contains(path, "{") {
			if literal[path] == nil {
				literal[path] = map[string]bool{}
			}
			literal[path][rt.Method] = true
			literal[path][http.MethodHead] = literal[path][http.MethodGet]
		}
		all[rt.Method+" "+rt.Host+rt.Pattern] = a.handler(rt, cors)
	}
	delete(hosts, "")
	for _, rt := range routes { // on a host of its own a product must not hide them
		for host := range hosts {
			if rt.Product == kernelProduct && rt.Pattern != "/{$}" {
				all[rt.Method+" "+host+rt.Pattern] = a.handler(rt, cors)
			}
		}
	}
	for pattern, h := range all {
		where, isHead := strings.CutPrefix(pattern, http.MethodHead+" ")
		if _, has := all[http.MethodGet+" "+where]; isHead && has {
			continue
		}
		if where, isGet := strings.CutPrefix(pattern, http.MethodGet+" "); isGet {
			h = withHead(h, all[http.MethodHead+" "+where])
		}
		mux.Handle(pattern, h)
	}
	unknown := a.handler(Route{Method: "any", Pattern: "unknown", Handle: func(c *Call) error { return c.noRoute(mux, methods, literal) }}, cors)
	mux.Handle("/", unknown)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodConnect || checkPath(r) != nil {
			unknown.ServeHTTP(w, r) // the mux would answer with a redirect
			return
		}
		if methods := literal[r.URL.Path]; methods != nil && !methods[r.Method] {
			unknown.ServeHTTP(w, r) // the mux would call a route of another method whose pattern matches every path
			return
		}
		mux.ServeHTTP(w, r)
	}), nil
}

// withHead returns the handler of a pattern for GET, which the mux also calls for
// HEAD: head, if it is not nil, answers those. Registered on its own, a HEAD of
// /{name} would conflict with the GET of every other path.
func withHead(get, head http.Handler) http.Handler {
	if head == nil {
		return get
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			head.ServeHTTP(w, r)
			return
		}
		get.ServeHTTP(w, r)
	})
}

const methodCode = "method"

// noRoute answers a request that has no route: 405 if another method has one,
// else 404.
func (c *Call) noRoute(mux *http.ServeMux, methods map[string]bool, literal map[string]map[string]bool) error {
	var allowed []string
	if known := literal[c.Request.URL.Path]; known != nil {
		methods = known
	}
	for method, has := range methods {
		if !has {
			continue
		}
		probe := &http.Request{Method: method, URL: c.Request.URL, Host: c.Request.Host}
		if _, pattern := mux.Handler(probe); pattern != "/" && pattern != "" {
			allowed = append(allowed, method)
			if method == http.MethodGet {
				allowed = append(allowed, http.MethodHead)
			}
		}
	}
	if len(allowed) == 0 {
		c.sendNoRoute()
		return nil
	}
	slices.Sort(allowed)
	allow := strings.Join(slices.Compact(allowed), ", ")
	c.w.Header().Set("Allow", allow)
	p := problemOf(mayfly.Invalid)
	p.Title, p.Status, p.Code, p.Type = methodTitle, http.StatusMethodNotAllowed, methodCode, "/docs/api#"+methodCode
	p.Detail, p.Hint = "", "use one of "+allow
	c.sendProblem(p)
	return nil
}

// ErrNoRoute is returned by the handler of a pattern that matches more paths than it
// serves: the answer is that of a path without a route.
var ErrNoRoute = errors.New("there is no such route")

func (c *Call) sendNoRoute() {
	p := problemOf(mayfly.NotFound)
	p.Detail, p.Hint = ErrNoRoute.Error(), "/docs/api lists the routes"
	typ := c.Prefers(problemTypes()...) // whatever route has matched
	c.sendProblemBytes(p.Status, typ, problemBytes(p, typ))
}

// readinessRoute is GET and HEAD /readyz of the public listener. It reports
// whether this node serves users, and not why.
func (a *API) readinessRoute(method string) Route {
	rt := Route{
		Method: method, Pattern: "/readyz", ID: "getReadiness", Tag: "health", Product: kernelProduct, WhileClosed: true,
		Summary: "Does this node serve users?", About: "For a load balancer, which sends users to another node while the answer is no.",
		Answers: append(Answers[wire.Readiness](http.StatusOK, "It does.", "Cache-Control"),
			Answers[wire.Readiness](http.StatusServiceUnavailable, "It does not: use another node.", "Cache-Control", "Retry-After")...),
		Handle: func(c *Call) error {
			if !a.o.Ready(c.Context()) {
				c.w.Header().Set("Retry-After", "1")
				return c.JSON(http.StatusServiceUnavailable, wire.Readiness{})
			}
			return c.JSON(http.StatusOK, wire.Readiness{Ready: true})
		},
	}
	if method == http.MethodHead {
		return rt.WithoutBody("headReadiness", "Does this node serve users? Without a body")
	}
	return rt
}
