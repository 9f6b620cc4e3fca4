package cli

import (
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/app/server"
)

func newServe() *cobra.Command {
	var s settings
	var listen, admin, roles, level string
	var newKey bool
	c := &cobra.Command{
		Use: "serve", Short: "Run a server; no configuration is needed",
		Long: "Runs a server with an embedded store: one process and one data folder, which it creates if it does not exist. With\n" +
			"--profile cluster it is one of several nodes on Cassandra, Redis, Kafka and S3 (docs/cluster.md); mayfly config check\n" +
			"--connect tests the connections. At start it prints what to try first. SIGINT or SIGTERM stops it in order: /readyz reports\n" +
			"not ready first (listen.drain_after), then requests in progress finish (listen.drain_timeout).\n\n" +
			"Settings come from ./" + config.DefaultFile + " or --config, from the environment (MAYFLY_WALK_INTERVAL sets walk.interval), and from\n" +
			"flags; each overrides the one before. The exit code is 7 if a write that must be durable failed: nothing was acknowledged\n" +
			"that is not stored.",
		Example: "  mayfly serve\n  mayfly serve --data /var/lib/mayfly --listen :7420\n  mayfly serve --config /etc/mayfly.yaml --log-level debug\n" +
			"  mayfly serve --set stories.live=10 --set listen.cert_file=cert.pem --set listen.key_file=key.pem\n" +
			"  mayfly serve --profile cluster --config /etc/mayfly.yaml --set node=a --roles api",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := s.load(map[string]string{"listen.api": listen, "listen.admin": admin, "roles": roles})
			if err != nil {
				return err
			}
			var least slog.Level
			if err := least.UnmarshalText([]byte(level)); err != nil {
				return usage(mayfly.Errorf(mayfly.Invalid, "invalid --log-level %s", level).WithHint("choose debug, info, warn or error"))
			}
			log := slog.New(slog.NewTextHandler(c.ErrOrStderr(), &slog.HandlerOptions{Level: least}))
			return server.Run(c.Context(), server.Options{Config: cfg, File: s.file, NewKey: newKey, Log: log, Out: c.OutOrStdout()})
		},
	}
	s.allFlags(c)
	c.Flags().StringVar(&listen, "listen", "", "address of the API (default 127.0.0.1:7420)")
	c.Flags().StringVar(&admin, "admin", "", "address of the admin API (default 127.0.0.1:7421)")
	c.Flags().StringVar(&roles, "roles", "", "what this node does in a cluster: api, walk or all (default all)")
	completeWords(c, "roles", "api", "walk", "all")
	c.Flags().BoolVar(&newKey, "new-key", false, "cluster: accept that the key in tokens.key_file was changed; all users must sign in again")
	c.Flags().StringVar(&level, "log-level", "info", "debug, info, warn or error")
	completeWords(c, "log-level", "debug", "info", "warn", "error")
	return c
}
