package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly/api/wire"
)

func newOrphans() *cobra.Command {
	var a admin
	var op operation
	var erasing bool
	c := &cobra.Command{
		Use: "orphans", Short: "Find media that no item owns, and erase them",
		Long: "Uploads that were never published, and what a crash left, older than a day. It tells what it would erase; with --erase it does,\n" +
			"at most 0.1 % of what it looked at in one go (10 at least, 10,000 at most).\n\n" + adminHelp + " A server looks at 100,000\n" +
			"objects in hot and in cold storage in one go; each run that erases goes on where the one before ended.",
		Example: "  mayfly orphans\n  mayfly orphans --erase --reason 'weekly'",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			who := &op
			if !erasing {
				who = nil
			}
			return a.do(c, who, func(ctx context.Context, api adminAPI) error {
				find := api.Orphans
				if erasing {
					find = func(ctx context.Context) (wire.Orphans, error) { return api.EraseOrphans(ctx, op.reason) }
				}
				r, err := find(ctx)
				if err == nil || r.Looked > 0 {
					tellOrphans(c.OutOrStdout(), r)
				}
				return err
			})
		},
	}
	a.flags(c)
	op.flags(c)
	c.Flags().BoolVar(&erasing, "erase", false, "erase them")
	return c
}

func tellOrphans(out io.Writer, r wire.Orphans) {
	fmt.Fprintf(out, "%s objects looked at, %s of them orphans, %s erased\n", humanize.Comma(int64(r.Looked)), humanize.Comma(int64(r.Orphans)), humanize.Comma(int64(r.Erased)))
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
