package server

import (
	"context"
	"errors"
	"log/slog"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/app/profile"
)

// Local is a server inside this process, for demo and bench: the store, the node
// and the listeners of Run, started and stopped by the caller.
type Local struct {
	Config config.Config
	Store  *profile.Store
	Node   *node.Node

	listeners *listeners
	log       *slog.Logger
	failed    <-chan error
}

// LocalOptions configures Start.
type LocalOptions struct {
	Open func(config.Config) (*profile.Store, error) // default profile.Embedded
	Log  *slog.Logger                                // default: discarded
	Idle bool                                        // run no loops and do not listen: to look at the store
}

// Start starts a Local. It listens where cfg says; port 0 picks a free port.
func Start(ctx context.Context, cfg config.Config, o LocalOptions) (*Local, error) {
	if o.Open == nil {
		o.Open = func(cfg config.Config) (*profile.Store, error) { return profile.Embedded(cfg, node.Tables()) }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	l := &Local{Config: cfg, log: o.Log}
	var err error
	if l.Store, err = o.Open(cfg); err != nil {
		return nil, err
	}
	if err := l.start(ctx, o.Idle); err != nil {
		return nil, errors.Join(err, l.Stop(ctx))
	}
	return l, nil
}

func (l *Local) start(ctx context.Context, idle bool) error {
	o, err := nodeOptions(l.Config, l.Store, l.log)
	if err != nil {
		return err
	}
	o.Idle = idle
	if l.Node, err = node.Start(ctx, l.Store.Set, o); err != nil || idle {
		return err
	}
	if l.listeners, err = listen(ctx, l.Node, l.Config, l.log, nil); err != nil {
		return err
	}
	l.failed = l.listeners.serve()
	return nil
}

// API returns the URL of the API.
func (l *Local) API() string { return l.listeners.api.url }

// Admin returns the URL of the admin API; "" if there is none.
func (l *Local) Admin() string { return l.listeners.adminURL() }

// KV returns the address of the Redis protocol; "" if it is off.
func (l *Local) KV() string {
	for _, one := range l.listeners.other {
		return reachable(one.listen.Addr())
	}
	return ""
}

// Now returns the time of the node's clock.
func (l *Local) Now() mayfly.Instant { return l.Node.Clock().Read().Now }

// Err returns why the server cannot go on; nil while it can.
func (l *Local) Err() error {
	if err := l.Node.Err(); err != nil {
		return err
	}
	select {
	case err := <-l.failed:
		return err
	default:
		return nil
	}
}

// Stop finishes the requests in progress and stops the node and the store.
func (l *Local) Stop(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	var errs []error
	if l.listeners != nil {
		errs = append(errs, l.listeners.drain(l.Config.Listen.DrainWithin, l.log))
	}
	if l.Node != nil {
		errs = append(errs, l.Node.Stop(ctx))
	}
	return errors.Join(append(errs, l.Store.Close())...)
}
