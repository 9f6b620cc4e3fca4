package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/httpapi"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/app/node"
)

// Limits of every listener (C9).
const (
	maxHeader        = 64 << 10 // a token has at most 8 KiB
	adminConnections = 100
)

// listeners are the listeners of a server.
type listeners struct {
	api   *listener
	admin *listener // nil if there is none
}

// listener is a TCP listener with its HTTP server.
type listener struct {
	server  *http.Server
	listen  net.Listener
	url     string
	secure  bool
	leaving atomic.Bool // close each connection after its next response
}

// listen opens the listeners; nothing is served yet.
func listen(ctx context.Context, n *node.Node, c config.Config, log *slog.Logger, tracer trace.Tracer) (*listeners, error) {
	forUsers, forOperators := newConnMetrics("api"), newConnMetrics("admin")
	api, err := n.API(node.ServeOptions{
		Listen: c.Listen, Logger: log, Tracer: tracer, Version: Version, Metrics: append(forUsers.collectors(), forOperators.collectors()...),
	})
	if err != nil {
		return nil, err
	}
	public, err := newListener(c.Listen, forUsers, api.Public(), log)
	if err != nil {
		return nil, fmt.Errorf("listen for the API: %w", err)
	}
	l := &listeners{api: public}
	if err := l.api.useTLS(ctx, c, log); err != nil {
		return nil, errors.Join(err, l.close())
	}
	l.api.warnIfPlain(log)
	if c.Listen.Admin == "" {
		return l, nil
	}
	operators := c.Listen
	operators.API, operators.Connections, operators.PerAddress = c.Listen.Admin, adminConnections, adminConnections
	if l.admin, err = newListener(operators, forOperators, api.Admin(), log); err != nil {
		return nil, errors.Join(fmt.Errorf("listen for the admin API: %w", err), l.close())
	}
	l.admin.warnIfPlain(log)
	return l, nil
}

// warnIfPlain logs a warning if tokens would cross a network in plain text.
func (l *listener) warnIfPlain(log *slog.Logger) {
	at, ok := l.listen.Addr().(*net.TCPAddr)
	if ok && !at.IP.IsLoopback() && !l.secure {
		log.Warn("plain HTTP on a reachable address; set listen.cert_file and listen.key_file or listen.acme_domains, or use a TLS proxy", "address", at)
	}
}

// newListener listens at c.API.
func newListener(c config.Listen, m connMetrics, h http.Handler, log *slog.Logger) (*listener, error) {
	trusted, err := httpapi.ParseProxies(c.Proxies)
	if err != nil {
		return nil, err
	}
	tcp, err := net.Listen("tcp", c.API)
	if err != nil {
		return nil, mayfly.Wrap(mayfly.Unavailable, err, "is another server running? choose another address with --listen and --admin")
	}
	limited := limitConnections(tcp, c.Connections, c.PerAddress, trusted, m)
	l := &listener{listen: limited, url: "http://" + reachable(tcp.Addr())}
	l.server = &http.Server{
		Handler: l.closeWhenLeaving(h), ReadHeaderTimeout: c.HeaderWithin, IdleTimeout: c.IdleWithin, MaxHeaderBytes: maxHeader, ConnState: limited.noteState,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug), // errors of clients before a request
	}
	return l, nil
}

// closeWhenLeaving makes each response the last of its connection once the
// listener is leaving. Closing an idle connection instead could lose a request
// that the client is just sending.
func (l *listener) closeWhenLeaving(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if l.leaving.Load() {
			w.Header().Set("Connection", "close")
		}
		h.ServeHTTP(w, r)
	})
}

// reachable returns an address that this machine can connect to: the loopback
// for a listener on all addresses.
func reachable(address net.Addr) string {
	host, port, err := net.SplitHostPort(address.String())
	if err != nil {
		return address.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

func (l *listeners) all() []*listener {
	if l.admin == nil {
		return []*listener{l.api}
	}
	return []*listener{l.api, l.admin}
}

// adminURL returns the URL of the admin API; "" if there is none.
func (l *listeners) adminURL() string {
	if l.admin == nil {
		return ""
	}
	return l.admin.url
}

// serve starts serving and returns a channel that reports a listener that fails.
func (l *listeners) serve() <-chan error {
	failed := make(chan error, len(l.all()))
	for _, one := range l.all() {
		go func() {
			if err := one.serve(); !errors.Is(err, http.ErrServerClosed) {
				failed <- fmt.Errorf("listen at %s: %w", one.url, err)
			}
		}()
	}
	return failed
}

func (l *listener) serve() error {
	if l.secure {
		return l.server.ServeTLS(l.listen, "", "")
	}
	return l.server.Serve(l.listen)
}

// drain accepts no new connections and waits for the requests in progress. The
// admin listener closes second, so that operators can watch the drain.
func (l *listeners) drain(timeout time.Duration, log *slog.Logger) error {
	ctx, stop := context.WithTimeout(context.Background(), timeout)
	defer stop()
	var errs []error
	for _, one := range l.all() {
		err := one.server.Shutdown(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			log.Warn("drain timeout, closing connections with requests in progress", "listener", one.url)
			err = one.server.Close()
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// close closes the listeners and all connections.
func (l *listeners) close() error {
	var errs []error
	for _, one := range l.all() {
		errs = append(errs, one.server.Close(), ignoreClosed(one.listen.Close()))
	}
	return errors.Join(errs...)
}

// ignoreClosed returns err unless it reports that the listener is closed already.
func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
