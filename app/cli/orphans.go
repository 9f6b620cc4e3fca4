package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly/api/wire"
)

func newOrphans() *cobra.Command {
	var d deskChoice
	var who deed
	var erasing bool
	c := &cobra.Command{
		Use: "orphans", Short: "Find media that no item owns, and erase them",
		Long: "Uploads that were never published, and what a crash left, older than a day. It tells what it would erase; with --erase it does,\n" +
			"at most 0.1 % of what it looked at in one go (10 at least, 10,000 at most).\n\n" + eitherDesk + " A server looks at 100,000\n" +
			"objects in hot and in cold storage in one go; each run that erases goes on where the one before ended.",
		Example: "  mayfly orphans\n  mayfly orphans --erase --reason 'weekly'",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			deed := &who
			if !erasing {
				deed = nil
			}
			return d.at(c, deed, func(ctx context.Context, at desk) error {
				r, err := at.orphans(ctx, erasing, who)
				if err == nil || r.Looked > 0 {
					tellOrphans(c.OutOrStdout(), r)
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

func tellOrphans(out io.Writer, r wire.Orphans) {
	fmt.Fprintf(out, "%s objects looked at, %s of them orphans, %s erased\n", grouped(int64(r.Looked)), grouped(int64(r.Orphans)), grouped(int64(r.Erased)))
	for _, key := range r.Examples {
		fmt.Fprintf(out, "  %s\n", key)
	}
	if r.Capped {
		fmt.Fprintln(out, "There are more than one run may erase: look at them, then run it again.")
	}
	if !r.Whole {
		fmt.Fprintln(out, "There are more objects than one run looks at: one that erases goes on from there.")
	}
}
