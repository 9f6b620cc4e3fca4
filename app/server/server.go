package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel/trace"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/app/profile"
)

func newServe() *cobra.Command {
	s := &serve{}
	c := &cobra.Command{
		Use: "serve", Short: "Run a server; nothing needs to be configured",
		Long: "Runs a server with an embedded store: one process, one data folder, which it makes if it is not there. With --profile\n" +
			"cluster it is one of several nodes on Cassandra, Redis, Kafka and S3 (docs/cluster.md); mayfly config check --connect\n" +
			"tries them. It prints what to try next. SIGINT or SIGTERM stops it in good order: /readyz says so first (listen.drain_after),\n" +
			"then requests that are under way finish (listen.drain_within).\n\n" +
			"Settings come from ./" + config.DefaultFile + " or --config, from the environment (MAYFLY_WALK_CADENCE sets walk.cadence), and from\n" +
			"flags, each over the one before. It exits with 7 if the disk can no longer be trusted: nothing was acknowledged that is not there.",
		Example: "  mayfly serve\n  mayfly serve --data /var/lib/mayfly --listen :7420\n  mayfly serve --config /etc/mayfly.yaml --log-level debug\n" +
			"  mayfly serve --set stories.live=10 --set listen.cert=cert.pem --set listen.key=key.pem\n" +
			"  mayfly serve --profile cluster --config /etc/mayfly.yaml --set node=a --roles api",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return s.run(c) },
	}
	s.settings.allFlags(c)
	c.Flags().StringVar(&s.listen, "listen", "", "address of the API (default 127.0.0.1:7420)")
	c.Flags().StringVar(&s.admin, "admin", "", "address of the admin listener (default 127.0.0.1:7421)")
	c.Flags().StringVar(&s.roles, "roles", "", "what this node does among others: api, walk or all (default all)")
	completeWords(c, "roles", "api", "walk", "all")
	c.Flags().BoolVar(&s.newKey, "new-key", false, "on a cluster: the key in tokens.key_file was changed on purpose; everybody has to sign in again")
	c.Flags().StringVar(&s.level, "log-level", "info", "debug, info, warn or error")
	completeWords(c, "log-level", "debug", "info", "warn", "error")
	return c
}

type serve struct {
	settings      settings
	listen, admin string
	roles         string
	newKey        bool
	level         string

	config config.Config
	log    *slog.Logger
	tracer trace.Tracer // nil: no traces
}

func (s *serve) run(c *cobra.Command) (err error) {
	if s.config, err = s.settings.load(map[string]string{"listen.api": s.listen, "listen.admin": s.admin, "roles": s.roles}); err != nil {
		return err
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(s.level)); err != nil {
		return usage(mayfly.Errorf(mayfly.Invalid, "--log-level %s is none", s.level).WithHint("choose debug, info, warn or error"))
	}
	s.log = slog.New(slog.NewTextHandler(c.ErrOrStderr(), &slog.HandlerOptions{Level: level}))
	before := slog.Default()
	slog.SetDefault(s.log) // what the drivers log
	defer slog.SetDefault(before)
	defer tune(s.config)()
	traces, err := newTraces(c.Context(), s.config, s.log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, traces.close()) }()
	s.tracer = traces.tracer
	return s.onStore(c)
}

// onStore serves on the profile's store, and closes it after everything else.
func (s *serve) onStore(c *cobra.Command) (err error) {
	late := newLateClock()
	st, err := profile.Open(c.Context(), s.config, late.time())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	o := node.FromConfig(s.config)
	o.Reclaim = st.Reclaim
	o.Problem = s.problem
	if o.Products.Key, err = node.LoadKey(s.config); err != nil {
		return err
	}
	o.Products.NewKey, o.Follow = s.newKey, late.follow
	n, err := node.Start(c.Context(), st.Set, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Stop(context.WithoutCancel(c.Context()))) }()
	return s.onNode(c, n)
}

// problem logs what a loop could not do. What a stop has cut short is done after
// the next start.
func (s *serve) problem(loop string, err error) {
	level := slog.LevelWarn
	if errors.Is(err, context.Canceled) {
		level = slog.LevelDebug
	}
	s.log.Log(context.Background(), level, "a loop failed and will try again", "loop", loop, "error", err)
}

// onNode answers until the process is told to stop, a listener fails, or the
// disk can no longer be trusted.
func (s *serve) onNode(c *cobra.Command, n *node.Node) (err error) {
	doors, err := s.open(c.Context(), n)
	if err != nil {
		return err
	}
	if err := leaveAdmin(s.config.Data, doors.adminURL()); err != nil {
		return errors.Join(err, doors.close())
	}
	defer func() { err = errors.Join(err, forgetAdmin(s.config.Data)) }()
	for _, line := range s.welcome(doors) {
		fmt.Fprintln(c.OutOrStdout(), line)
	}
	failed := doors.serve()
	if err := s.await(c.Context().Done(), n, failed); err != nil {
		return errors.Join(err, doors.close())
	}
	n.Leave()
	if err := s.notice(n, doors, failed); err != nil {
		return errors.Join(err, doors.close())
	}
	s.log.Info("stopping: requests that are under way may finish", "within", s.config.Listen.DrainWithin)
	return doors.drain(s.config.Listen.DrainWithin, s.log)
}

// await waits until done is closed. The error says why the server cannot go on
// until then.
func (s *serve) await(done <-chan struct{}, n *node.Node, failed <-chan error) error {
	select {
	case <-done:
		return nil
	case err := <-failed:
		return err
	case <-n.Blown():
		return mayfly.Wrap(mayfly.Unavailable, n.Err(), "look at the disk; start again when it is well: what was acknowledged is there")
	}
}

// notice goes on serving on a node that says that it is not ready: users whom a
// load balancer still sends here are answered until it has noticed. A second
// signal ends it.
func (s *serve) notice(n *node.Node, d *doors, failed <-chan error) error {
	after := s.config.Listen.DrainAfter
	if after == 0 {
		return nil
	}
	again, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	over, cancel := context.WithTimeout(again, after)
	defer cancel()
	d.api.leaving.Store(true)
	s.log.Info("draining: not ready any more, and users are still answered; a second signal ends it", "for", after)
	return s.await(over.Done(), n, failed)
}

// welcome says where it listens and what to try next.
func (s *serve) welcome(d *doors) []string {
	lines := []string{"mayfly " + version + " listens at " + d.api.url + " (docs at " + d.api.url + "/docs/api)"}
	if d.admin != nil {
		lines = append(lines, "  for operators at "+d.admin.url+"; data in "+s.config.Data)
	}
	t := trial{data: s.config.Data, api: d.api.url, file: s.settings.file}
	if d.admin != nil {
		t.admin = d.admin.url
	}
	if s.config.Listen.Public != "" && d.api.secure {
		t.api = strings.TrimSuffix(s.config.Listen.Public, "/")
	}
	try, err := t.lines()
	if err != nil {
		s.log.Warn("what to try next cannot be said", "error", err)
		return lines
	}
	return append(append(lines, "Try it, in another terminal:"), try...)
}
