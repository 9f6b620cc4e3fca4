// Package server runs a node as a process: it opens the store of the configured
// profile, starts the node, listens with or without TLS, and stops in order
// (not ready first, then drain, then the node, then the store).
//
// It acknowledges nothing after a write that must be durable has failed: Run
// returns, and the process exits.
package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"go.opentelemetry.io/otel/trace"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/app/profile"
)

// Version is the version that this source will be released as.
const Version = "0.1.0-dev"

// Options configures Run.
type Options struct {
	Config config.Config
	File   string // configuration file, for the commands that Run prints
	NewKey bool   // the signing key of a cluster was changed on purpose
	Log    *slog.Logger
	Out    io.Writer // gets the addresses and what to try first
}

// process is one call of Run.
type process struct {
	Options
	tracer trace.Tracer // nil: no traces
}

// Run serves until ctx ends, a listener fails, or the disk can no longer be
// trusted.
func Run(ctx context.Context, o Options) (err error) {
	before := slog.Default()
	slog.SetDefault(o.Log) // for the drivers
	defer slog.SetDefault(before)
	defer Tune(o.Config)()
	traces, err := newTraces(ctx, o.Config, o.Log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, traces.close()) }()
	p := &process{Options: o, tracer: traces.tracer}
	return p.onStore(ctx)
}

// onStore opens the profile's store, serves on it, and closes it last.
func (p *process) onStore(ctx context.Context) (err error) {
	late := NewLateClock()
	st, err := profile.Open(ctx, p.Config, node.Tables(), late.Time())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	o, err := nodeOptions(p.Config, st, p.Log)
	if err != nil {
		return err
	}
	o.Products.NewKey, o.Follow = p.NewKey, late.Follow
	n, err := node.Start(ctx, st.Set, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Stop(context.WithoutCancel(ctx))) }()
	return p.onNode(ctx, n)
}

// nodeOptions returns the options of a node that runs on st.
func nodeOptions(cfg config.Config, st *profile.Store, log *slog.Logger) (o node.Options, err error) {
	o = node.FromConfig(cfg)
	o.Reclaim, o.EraseRows = st.Reclaim, st.EraseRows
	o.Disk = func() (node.Disk, bool) {
		f, ok := st.Figures()
		return node.Disk(f), ok
	}
	o.Problem = func(loop string, err error) {
		level := slog.LevelWarn
		if errors.Is(err, context.Canceled) { // a stop: the next start does the rest
			level = slog.LevelDebug
		}
		log.Log(context.Background(), level, "background loop failed, will retry", "loop", loop, "error", err)
	}
	o.Products.Key, err = node.LoadKey(cfg)
	return o, err
}

// onNode listens and serves until something ends it.
func (p *process) onNode(ctx context.Context, n *node.Node) (err error) {
	l, err := listen(ctx, n, p.Config, p.Log, p.tracer)
	if err != nil {
		return err
	}
	if err := writeAdminFile(p.Config.Data, l.adminURL()); err != nil {
		return errors.Join(err, l.close())
	}
	defer func() { err = errors.Join(err, RemoveAdminFile(p.Config.Data)) }()
	for _, line := range p.welcome(l) {
		fmt.Fprintln(p.Out, line)
	}
	failed := l.serve()
	if err := p.await(ctx.Done(), n, failed); err != nil {
		return errors.Join(err, l.close())
	}
	n.Leave()
	if err := p.awaitLoadBalancer(n, l, failed); err != nil {
		return errors.Join(err, l.close())
	}
	p.Log.Info("stopping, finishing requests", "timeout", p.Config.Listen.DrainWithin)
	return l.drain(p.Config.Listen.DrainWithin, p.Log)
}

// await waits until done is closed. It returns an error if the server cannot go
// on until then.
func (p *process) await(done <-chan struct{}, n *node.Node, failed <-chan error) error {
	select {
	case <-done:
		return nil
	case err := <-failed:
		return err
	case <-n.Blown():
		return mayfly.Wrap(mayfly.Unavailable, n.Err(), "check the disk, then start again; everything that was acknowledged is stored")
	}
}

// awaitLoadBalancer keeps serving for listen.drain_after while /readyz reports
// not ready, so that a load balancer stops sending requests before the listener
// closes. A second signal ends the wait.
func (p *process) awaitLoadBalancer(n *node.Node, l *listeners, failed <-chan error) error {
	after := p.Config.Listen.DrainAfter
	if after == 0 {
		return nil
	}
	again, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	over, cancel := context.WithTimeout(again, after)
	defer cancel()
	l.api.leaving.Store(true)
	p.Log.Info("draining, not ready, still serving until a second signal", "for", after)
	return p.await(over.Done(), n, failed)
}

// welcome returns the lines that name the addresses and what to try first.
func (p *process) welcome(l *listeners) []string {
	lines := []string{"mayfly " + Version + " listens at " + l.api.url + " (docs at " + l.api.url + "/docs/api)"}
	first := FirstSteps{Data: p.Config.Data, File: p.File, API: l.api.url, Admin: l.adminURL()}
	if first.Admin != "" {
		lines = append(lines, "  admin API at "+first.Admin+"; data in "+p.Config.Data)
	}
	for _, one := range l.other {
		first.KV = reachable(one.listen.Addr())
		lines = append(lines, "  "+one.Name+" (Redis protocol) at "+first.KV+": mayfly kv --help says how to get a key")
	}
	if p.Config.Listen.Public != "" && l.api.secure {
		first.API = strings.TrimSuffix(p.Config.Listen.Public, "/")
	}
	try, err := first.Lines()
	if err != nil {
		p.Log.Warn("cannot print the first steps", "error", err)
		return lines
	}
	return append(append(lines, "Try it, in another terminal:"), try...)
}
