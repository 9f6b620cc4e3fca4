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
		Use: "describe", Short: "Print a file with every setting, what it means, and its default",
		Long: "Prints a configuration file that has every setting with its default and what it means. It loads as it is; take out\n" +
			"what you do not change. mayfly serve reads ./" + config.DefaultFile + " if it is there.",
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
		Use: "check [FILE]", Short: "Say whether a configuration works, and what it changes",
		Long: "Reads the file, the environment and the flags as mayfly serve does, says what cannot work and what to do about it, or\n" +
			"what differs from the defaults. It opens nothing, unless --connect asks it to try every server of a cluster: it then says\n" +
			"which of them can be relied on and what is wrong with the others, and leaves what mayfly serve would make, such as an\n" +
			"empty keyspace and topics.",
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
			tellChanged(c, cfg)
			if connect {
				return tryServers(c, cfg)
			}
			return nil
		},
	}
	s.allFlags(c)
	c.Flags().BoolVar(&connect, "connect", false, "try every server that it names")
	return c
}

// tryServers says of every server whether it can be relied on.
func tryServers(c *cobra.Command, cfg config.Config) error {
	before := slog.Default()
	slog.SetDefault(slog.New(slog.DiscardHandler)) // what the drivers tell a server's log
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

func tellChanged(c *cobra.Command, cfg config.Config) {
	defaults, changed := config.DefaultOn(cfg.Profile), 0
	defaults.Data = config.DefaultData
	for _, key := range config.Keys() {
		if now, before := cfg.Text(key), defaults.Text(key); now != before {
			changed++
			fmt.Fprintf(c.OutOrStdout(), "%s: %s (default: %s)\n", key, now, orNothing(before))
		}
	}
	fmt.Fprintf(c.OutOrStdout(), "The configuration works. %d of %d settings differ from their defaults.\n", changed, len(config.Keys()))
}

func orNothing(text string) string {
	if text == "" {
		return "empty"
	}
	return text
}
