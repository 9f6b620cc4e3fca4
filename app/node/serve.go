package node

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.opentelemetry.io/otel/trace"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/accountapi"
	"github.com/mayflyhq/mayfly/api/adminapi"
	"github.com/mayflyhq/mayfly/api/httpapi"
	"github.com/mayflyhq/mayfly/app/config"
)

// ServeOptions are the settings of the HTTP handlers.
type ServeOptions struct {
	Listen  config.Listen
	Logger  *slog.Logger
	Tracer  trace.Tracer // nil: no traces
	Version string
	Metrics []prometheus.Collector // served with those of the node
}

// API returns the HTTP handlers of the node: one for users, one for operators. It
// may be called once.
func (n *Node) API(o ServeOptions) (*httpapi.API, error) {
	if n.Accounts() == nil {
		return nil, mayfly.Errorf(mayfly.Invalid, "serve: the node has no key to verify tokens").WithHint("give the node a key: node.LoadKey")
	}
	registry := prometheus.NewRegistry()
	collected := []prometheus.Collector{collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), newCollector(n)}
	if own, ok := n.set.Limits.(prometheus.Collector); ok { // those of a cluster count how often they were not shared (C3)
		collected = append(collected, own)
	}
	for _, c := range append(collected, o.Metrics...) {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	routes, err := n.routes(registry, o.Version)
	if err != nil {
		return nil, err
	}
	api, err := httpapi.New(httpapi.Options{
		Accounts: n.Accounts(), Clock: n.clock, Routes: routes, Open: n.serves, Ready: n.readyForUsers, Authenticated: n.firstRequest,
		PublicURL: o.Listen.Public, Origins: o.Listen.Origins, Proxies: o.Listen.Proxies, BodyTimeout: o.Listen.BodyWithin, Edge: n.edge != nil,
		Logger: o.Logger, Registry: registry, Tracer: o.Tracer, Version: o.Version,
	})
	n.api.Store(api)
	return api, err
}

// routes returns the routes of every product of the node.
func (n *Node) routes(registry *prometheus.Registry, version string) ([]httpapi.Route, error) {
	products, err := n.productRoutes(registry)
	if err != nil {
		return nil, err
	}
	routes := append(accountapi.Routes(n.Accounts()), products...)
	return append(routes, adminapi.Routes(operator{n, version}, n.Accounts(), registry)...), nil
}

// readyForUsers reports whether a load balancer should send users to this node.
func (n *Node) readyForUsers(ctx context.Context) bool {
	return operator{n, ""}.Health(ctx).Roles["api"] == "ready"
}

// operator is the node as the admin listener sees it.
type operator struct {
	*Node
	version string
}

// serves returns why the node serves no users now; nil if it does. A clock that is
// behind would serve expired items. A node without the role api answers 503 and not
// 404, so that clients go to another node (I4).
func (n *Node) serves() error {
	if !n.o.does(API) {
		return mayfly.Errorf(mayfly.Unavailable, "this node serves no users").WithHint("send them to a node with the role api")
	}
	if r := n.clock.Read(); r.Off {
		return r.Err
	}
	return n.prepared()
}
