package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/erase"
)

func newOrphans() *cobra.Command {
	var d desk
	var who deed
	var erasing bool
	c := &cobra.Command{
		Use: "orphans", Short: "Find media that no item owns, and erase them",
		Long: "Uploads that were never published, and what a crash left, older than a day. It tells what it would erase; with --erase it does,\n" +
			"at most 0.1 % of what it looked at in one go (10 at least, 10,000 at most).",
		Example: "  mayfly orphans\n  mayfly orphans --erase --reason 'weekly'",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return d.at(c.Context(), func(ctx context.Context, now mayfly.Instant) error {
				r, err := d.node.Erase().Orphans(ctx, erase.OrphanRun{
					Now: now, Floor: d.config.Ends.OrphanAge, Erase: erasing, By: who.by, Reason: who.reason, Most: 1 << 30,
				})
				out := c.OutOrStdout()
				fmt.Fprintf(out, "%s objects looked at, %s of them orphans, %s erased\n", grouped(int64(r.Looked)), grouped(int64(r.Orphans)), grouped(int64(r.Deleted)))
				for _, key := range r.Examples {
					fmt.Fprintf(out, "  %s\n", key)
				}
				if r.Capped {
					fmt.Fprintln(out, "There are more than one run may erase: look at them, then run it again.")
				}
				return err
			})
		},
	}
	d.flags(c)
	who.flags(c)
	c.Flags().BoolVar(&erasing, "erase", false, "erase them")
	return c
}
