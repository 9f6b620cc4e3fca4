package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/net/netutil"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/app/node"
)

// Bounds of what every listener takes (C9).
const (
	longestHeader    = 64 << 10 // a token has 8 KiB at most
	adminConnections = 100
)

// doors are the listeners of a server.
type doors struct {
	api   *door
	admin *door // nil if there is none
}

// door is one listener and who answers on it.
type door struct {
	server  *http.Server
	listen  net.Listener
	url     string
	secure  bool
	leaving atomic.Bool // each answer is its connection's last
}

// open opens the listeners; nothing is answered yet.
func (s *serve) open(ctx context.Context, n *node.Node) (*doors, error) {
	l := s.config.Listen
	api, err := n.API(node.ServeOptions{Listen: l, Logger: s.log, Tracer: s.tracer, Version: version})
	if err != nil {
		return nil, err
	}
	public, err := newDoor(l, l.API, l.Connections, api.Public(), s.log)
	if err != nil {
		return nil, fmt.Errorf("listen for users: %w", err)
	}
	d := &doors{api: public}
	if err := d.api.useTLS(ctx, s.config, s.log); err != nil {
		return nil, errors.Join(err, d.close())
	}
	d.api.warnIfOpen(s.log)
	if l.Admin == "" {
		return d, nil
	}
	if d.admin, err = newDoor(l, l.Admin, adminConnections, api.Admin(), s.log); err != nil {
		return nil, errors.Join(fmt.Errorf("listen for operators: %w", err), d.close())
	}
	d.admin.warnIfOpen(s.log)
	return d, nil
}

// warnIfOpen says when tokens would travel over a network so that it can read them.
func (d *door) warnIfOpen(log *slog.Logger) {
	at, ok := d.listen.Addr().(*net.TCPAddr)
	if ok && !at.IP.IsLoopback() && !d.secure {
		log.Warn("plain HTTP at an address that others can reach: set listen.cert and listen.key or listen.acme, or put a proxy with TLS in front", "address", at)
	}
}

func newDoor(l config.Listen, address string, connections int, h http.Handler, log *slog.Logger) (*door, error) {
	listen, err := net.Listen("tcp", address)
	if err != nil {
		return nil, mayfly.Wrap(mayfly.Unavailable, err, "is another server running? choose another address with --listen and --admin")
	}
	d := &door{listen: netutil.LimitListener(listen, connections), url: "http://" + reachable(listen.Addr())}
	d.server = &http.Server{
		Handler: d.last(h), ReadHeaderTimeout: l.HeaderWithin, IdleTimeout: l.IdleWithin, MaxHeaderBytes: longestHeader,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug), // what clients do wrong before they say anything
	}
	return d, nil
}

// last lets connections end with an answer, once the door is being left: one
// that is closed while it is idle could lose a request that is on its way.
func (d *door) last(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.leaving.Load() {
			w.Header().Set("Connection", "close")
		}
		h.ServeHTTP(w, r)
	})
}

// reachable is an address that this machine can call: one that listens to all
// of them is called at the loopback.
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

func (d *doors) all() []*door {
	if d.admin == nil {
		return []*door{d.api}
	}
	return []*door{d.api, d.admin}
}

// adminURL is where operators are answered; "" if nowhere.
func (d *doors) adminURL() string {
	if d.admin == nil {
		return ""
	}
	return d.admin.url
}

// serve lets the listeners answer, and tells when one of them cannot any more.
func (d *doors) serve() <-chan error {
	failed := make(chan error, len(d.all()))
	for _, one := range d.all() {
		go func() {
			if err := one.serve(); !errors.Is(err, http.ErrServerClosed) {
				failed <- fmt.Errorf("listen at %s: %w", one.url, err)
			}
		}()
	}
	return failed
}

func (d *door) serve() error {
	if d.secure {
		return d.server.ServeTLS(d.listen, "", "")
	}
	return d.server.Serve(d.listen)
}

// drain takes no new connections and lets requests that are under way finish.
// Operators can look at it until the last has: their door closes second.
func (d *doors) drain(within time.Duration, log *slog.Logger) error {
	ctx, stop := context.WithTimeout(context.Background(), within)
	defer stop()
	var errs []error
	for _, one := range d.all() {
		err := one.server.Shutdown(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			log.Warn("requests that were still under way are cut off", "listener", one.url)
			err = one.server.Close()
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// close closes the listeners and whatever is under way.
func (d *doors) close() error {
	var errs []error
	for _, one := range d.all() {
		errs = append(errs, one.server.Close(), notClosed(one.listen.Close()))
	}
	return errors.Join(errs...)
}

// notClosed is err unless it says that there is nothing left to close.
func notClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
