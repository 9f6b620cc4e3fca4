package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/app/admin"
)

func newOrphans() *cobra.Command {
	var a adminFlags
	var op operation
	var erasing bool
	c := &cobra.Command{
		Use: "orphans", Short: "List media that no item owns, or erase them",
		Long: "Orphans are uploads that were never published, and media left by a crash, older than a day. Without --erase it only lists\n" +
			"them. Of media that items had, one run erases at most 0.1 % of the objects that it checked (at least 10, at most 10,000).\n\n" + adminHelp + "\n\n" +
			"A server checks 100,000 objects in hot and in cold storage per run; a run with --erase continues where the last one ended.",
		Example: "  mayfly orphans\n  mayfly orphans --erase --reason 'weekly'",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			who := &op
			if !erasing {
				who = nil
			}
			return a.do(c, who, func(ctx context.Context, api admin.API) error {
				find := api.Orphans
				if erasing {
					find = func(ctx context.Context) (wire.Orphans, error) { return api.EraseOrphans(ctx, op.reason) }
				}
				r, err := find(ctx)
				if err == nil || r.Looked > 0 {
					printOrphans(c.OutOrStdout(), r)
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

func printOrphans(out io.Writer, r wire.Orphans) {
	fmt.Fprintf(out, "%s objects checked, %s of them orphans, %s erased\n", humanize.Comma(int64(r.Looked)), humanize.Comma(int64(r.Orphans)), humanize.Comma(int64(r.Erased)))
	for _, key := range r.Examples {
		fmt.Fprintf(out, "  %s\n", key)
	}
	if r.Capped {
		fmt.Fprintln(out, "There are more orphans than one run may erase: check the list, then run it again.")
	}
	if !r.Whole {
		fmt.Fprintln(out, "There are more objects than one run checks: a run with --erase continues from here.")
	}
}
