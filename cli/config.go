package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly/config"
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
	s := &settings{}
	c := &cobra.Command{
		Use: "check [FILE]", Short: "Say whether a configuration works, and what it changes",
		Long: "Reads the file, the environment and the flags as mayfly serve does, says what cannot work and what to do about it, or\n" +
			"what differs from the defaults. It opens nothing.",
		Example: "  mayfly config check\n  mayfly config check /etc/mayfly.yaml\n  MAYFLY_WALK_CADENCE=2s mayfly config check",
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
			return nil
		},
	}
	s.allFlags(c)
	return c
}

func tellChanged(c *cobra.Command, cfg config.Config) {
	defaults, changed := config.Default(), 0
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
