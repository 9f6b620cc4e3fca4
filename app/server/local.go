package cli

import (
	"context"
	"errors"
	"log/slog"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/app/profile"
)

// localServer is a server within this process: the store, the node and the
// listeners are those of serve, on the loopback.
type localServer struct {
	config config.Config
	store  *profile.Store
	node   *node.Node
	doors  *doors
	log    *slog.Logger
	failed <-chan error
}

// localOptions are how one is started.
type localOptions struct {
	open func(config.Config) (*profile.Store, error) // default profile.Embedded
	log  *slog.Logger
}

// startLocal starts one. It listens where the configuration says; port 0 is a
// free one.
func startLocal(ctx context.Context, cfg config.Config, o localOptions) (*localServer, error) {
	if o.open == nil {
		o.open = profile.Embedded
	}
	s := &localServer{config: cfg, log: o.log}
	var err error
	if s.store, err = o.open(cfg); err != nil {
		return nil, err
	}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.stop(ctx))
	}
	return s, nil
}

func (s *localServer) start(ctx context.Context) error {
	o := node.FromConfig(s.config)
	o.Reclaim = s.store.Reclaim
	o.Problem = func(loop string, err error) {
		s.log.Warn("a loop failed and will try again", "loop", loop, "error", err)
	}
	var err error
	if o.Products.Key, err = node.LoadKey(s.config); err != nil {
		return err
	}
	if s.node, err = node.Start(ctx, s.store.Set, o); err != nil {
		return err
	}
	if s.doors, err = (&serve{config: s.config, log: s.log}).open(ctx, s.node); err != nil {
		return err
	}
	s.failed = s.doors.serve()
	return nil
}

// api and admin are where it answers.
func (s *localServer) api() string   { return s.doors.api.url }
func (s *localServer) admin() string { return s.doors.admin.url }

func (s *localServer) now() mayfly.Instant { return s.node.Clock().Read().Now }

// err is why it cannot go on; nil while it can.
func (s *localServer) err() error {
	if err := s.node.Err(); err != nil {
		return err
	}
	select {
	case err := <-s.failed:
		return err
	default:
		return nil
	}
}

// stop stops it in good order: requests that are under way finish first.
func (s *localServer) stop(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	var errs []error
	if s.doors != nil {
		errs = append(errs, s.doors.drain(s.config.Listen.DrainWithin, s.log))
	}
	if s.node != nil {
		errs = append(errs, s.node.Stop(ctx))
	}
	return errors.Join(append(errs, s.store.Close())...)
}
