package server

import (
	"context"
	"crypto/tls"
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
	other []*served // of the products
}

// served is a listener of a product, for another protocol than HTTP.
type served struct {
	node.Listener
	listen net.Listener
	stop   context.CancelFunc
	ctx    context.Context
	ended  chan struct{} // closed when Serve has returned; nil before serve
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
	metrics := append(forUsers.collectors(), forOperators.collectors()...)
	forProducts := map[string]connMetrics{}
	for _, one := range n.Listeners() {
		forProducts[one.Name] = newConnMetrics(one.Name)
		metrics = append(metrics, forProducts[one.Name].collectors()...)
	}
	api, err := n.API(node.ServeOptions{
		Listen: c.Listen, Logger: log, Tracer: tracer, Version: Version, Metrics: metrics,
	})
	if err != nil {
		return nil, err
	}
	public, err := newListener(c.Listen, forUsers, api.Public(), log)
	if err != nil {
		return nil, fmt.Errorf("listen for the API: %w", err)
	}
	l := &listeners{api: public}
	secure, err := tlsConfig(ctx, c, log)
	if err != nil {
		return nil, errors.Join(err, l.close())
	}
	l.api.useTLS(secure)
	l.api.warnIfPlain(log)
	for _, one := range n.Listeners() {
		other, err := newServed(one, c.Listen, forProducts[one.Name], secure, log)
		if err != nil {
			return nil, errors.Join(err, l.close())
		}
		l.other = append(l.other, other)
	}
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
	if !l.secure {
		warnIfReachable(l.listen.Addr(), "plain HTTP on a reachable address", log)
	}
}

func warnIfReachable(address net.Addr, message string, log *slog.Logger) {
	if at, ok := address.(*net.TCPAddr); ok && !at.IP.IsLoopback() {
		log.Warn(message+"; set listen.cert_file and listen.key_file or listen.acme_domains, or use a TLS proxy", "address", at)
	}
}

// newServed listens for a product, with the limits and the certificate of the API.
func newServed(one node.Listener, c config.Listen, m connMetrics, secure *tls.Config, log *slog.Logger) (*served, error) {
	trusted, err := httpapi.ParseProxies(c.Proxies)
	if err != nil {
		return nil, err
	}
	tcp, err := net.Listen("tcp", one.Address)
	if err != nil {
		return nil, mayfly.Wrap(mayfly.Unavailable, fmt.Errorf("listen for %s: %w", one.Name, err), "is another server running? choose another address with --set listen."+one.Name)
	}
	s := &served{Listener: one, listen: limitConnections(tcp, c.Connections+1, c.PerAddress, trusted, m)} // one more, which the product refuses with an answer
	s.ctx, s.stop = context.WithCancel(context.Background())
	if secure == nil {
		warnIfReachable(tcp.Addr(), "no TLS for "+one.Name+" on a reachable address", log)
		return s, nil
	}
	secure = secure.Clone()
	secure.NextProtos = nil // those of HTTP
	s.listen = tls.NewListener(s.listen, secure)
	return s, nil
}

// serve serves until end is called.
func (s *served) serve(failed chan<- error) {
	s.ended = make(chan struct{})
	go func() {
		defer close(s.ended)
		if err := s.Serve(s.ctx, s.listen); err != nil {
			failed <- fmt.Errorf("listen at %s: %w", s.listen.Addr(), err)
		}
	}()
}

// end accepts no more connections and waits until those that are open have ended.
func (s *served) end() error {
	s.stop()
	err := ignoreClosed(s.listen.Close())
	if s.ended != nil {
		<-s.ended
	}
	return err
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
	failed := make(chan error, len(l.all())+len(l.other))
	for _, one := range l.other {
		one.serve(failed)
	}
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
	for _, one := range l.other {
		errs = append(errs, one.end())
	}
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
	for _, one := range l.other {
		errs = append(errs, one.end())
	}
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
