package cli

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/app/profile"
	"github.com/mayflyhq/mayfly/app/server"
)

func newConfig() *cobra.Command {
	c := &cobra.Command{
		Use: "config", Short: "Print the documented configuration, or check one",
		Example: "  mayfly config describe > mayfly.yaml\n  mayfly config check mayfly.yaml",
	}
	c.AddCommand(newConfigDescribe(), newConfigCheck())
	return c
}

func newConfigDescribe() *cobra.Command {
	return &cobra.Command{
		Use: "describe", Short: "Print a file with every setting, its meaning and its default",
		Long: "Prints a valid configuration file with every setting, its meaning and its default. Remove what you do not change.\n" +
			"mayfly serve reads ./" + config.DefaultFile + " if it exists.",
		Example: "  mayfly config describe > mayfly.yaml",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			defaults := config.Default()
			defaults.Data = config.DefaultData
			text, err := config.Describe(defaults)
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(c.OutOrStdout(), text)
			return err
		},
	}
}

func newConfigCheck() *cobra.Command {
	s, connect := &settings{}, false
	c := &cobra.Command{
		Use: "check [FILE]", Short: "Check a configuration and print what differs from the defaults",
		Long: "Reads the file, the environment and the flags like mayfly serve, and prints errors with hints, or what differs from the\n" +
			"defaults. With --connect it also connects to every server of a cluster and prints which of them meet the requirements;\n" +
			"like mayfly serve, this creates the keyspace and the topics if they do not exist.",
		Example: "  mayfly config check --profile cluster --connect /etc/mayfly.yaml\n  mayfly config check\n  mayfly config check /etc/mayfly.yaml\n  MAYFLY_WALK_INTERVAL=2s mayfly config check",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				s.file = args[0]
			}
			cfg, err := s.load(nil)
			if err != nil {
				return err
			}
			printChanged(c, cfg)
			if connect {
				return tryServers(c, cfg)
			}
			return nil
		},
	}
	s.allFlags(c)
	c.Flags().BoolVar(&connect, "connect", false, "connect to every server of the configuration")
	return c
}

// tryServers connects to every server and prints the results.
func tryServers(c *cobra.Command, cfg config.Config) error {
	before := slog.Default()
	slog.SetDefault(slog.New(slog.DiscardHandler)) // the drivers log what is printed below
	defer slog.SetDefault(before)
	var wrong []error
	for _, found := range profile.Check(c.Context(), cfg, server.NewLateClock().Time()) {
		if found.Err == nil {
			fmt.Fprintf(c.OutOrStdout(), "%-10s ok       %s\n", found.Server, found.At)
			continue
		}
		fmt.Fprintf(c.OutOrStdout(), "%-10s wrong    %s\n", found.Server, found.At)
		wrong = append(wrong, found.Err)
	}
	return errors.Join(wrong...)
}

func printChanged(c *cobra.Command, cfg config.Config) {
	defaults, changed := config.DefaultOn(cfg.Profile), 0
	defaults.Data = config.DefaultData
	for _, key := range config.Keys() {
		if now, before := cfg.Text(key), defaults.Text(key); now != before {
			changed++
			fmt.Fprintf(c.OutOrStdout(), "%s: %s (default: %s)\n", key, now, orEmpty(before))
		}
	}
	fmt.Fprintf(c.OutOrStdout(), "The configuration is valid. %d of %d settings differ from their defaults.\n", changed, len(config.Keys()))
}

func orEmpty(text string) string {
	if text == "" {
		return "empty"
	}
	return text
}
