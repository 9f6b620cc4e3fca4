package cli

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly/demo"
)

func newDemo() *cobra.Command {
	var o demo.Options
	var child string
	c := &cobra.Command{
		Use:   "demo",
		Short: "Show the life of stories, pastes and keys in seconds, and check it",
		Long: "Starts a server on free ports with every window shortened to seconds. ana and ben publish; close friends, followers,\n" +
			"other users, users without an account and a moderator read over HTTP, most often around the deadlines. A server is killed\n" +
			"and started again; stories are archived, opened from cold storage, reshared, deleted, held and restored. A paste and\n" +
			"a key of the Redis protocol are read around their ends. A table shows the life of every story. It prints the\n" +
			"server's address and what to try while it runs, which is a minute or until Ctrl-C. At the end it prints the verdict and\n" +
			"removes its files.\n\n" +
			"The verdict counts what must never happen:\n" +
			"  LOST         acknowledged, but missing\n" +
			"  RESURRECTED  ended, but served again\n" +
			"  EARLY        refused before its deadline to a viewer who may see it\n" +
			"  LATE         served at or after its deadline to another user than its author\n" +
			"  LEAK         served to a viewer who may not see it\n" +
			"  DOUBLE       one birth or one expiry happened twice\n" +
			"  ORPHAN       stored media that no story owns",
		Example: "  mayfly demo\n  mayfly demo --for 5m\n  mayfly demo --once           a few stories, then the verdict, for scripts",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if child != "" {
				return demo.ServeUntilKilled(c.Context(), child, c.InOrStdin(), c.OutOrStdout())
			}
			o.Out = c.OutOrStdout()
			if err := demo.Run(c.Context(), o); !errors.Is(err, demo.ErrNotRight) {
				return err
			}
			return errWrong
		},
	}
	c.Flags().StringVar(&child, "child", "", "serve this folder until killed: the demo starts itself with this flag")
	hideFlag(c, "child")
	c.Flags().BoolVar(&o.Once, "once", false, "publish some stories at once, follow them to their end, and exit (for scripts)")
	c.Flags().IntVar(&o.Stories, "stories", 12, "number of stories, with --once")
	c.Flags().DurationVar(&o.For, "for", time.Minute, "how long to run, without --once")
	return c
}
