package cli

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly/app/admin"
)

func newPurges() *cobra.Command {
	var flags adminFlags
	c := &cobra.Command{
		Use: "purges", Short: "List purges of the edge that are not verified", Args: cobra.NoArgs, Example: "  mayfly purges\n  mayfly purges --admin http://10.0.0.1:7421",
		Long: "What ends is purged from the caches in front of the API (edge.varnish), and the caches are asked until they have nothing\n" +
			"of it. A purge is listed until then; that takes about ten seconds while every cache answers.\n\n" + adminHelp,
		RunE: func(c *cobra.Command, _ []string) error {
			return flags.do(c, nil, func(ctx context.Context, api admin.API) error {
				w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
				n := 0
				for p, err := range api.Purges(ctx) {
					if err != nil {
						return errors.Join(err, w.Flush())
					}
					if n == 0 {
						fmt.Fprintln(w, "KEY\tCAUSE\tATTEMPTS\tSINCE\tLAST ERROR")
					}
					n++
					fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%.80s\n", p.Key, p.Cause, p.Attempts, p.Since, p.Reason)
				}
				if n == 0 {
					fmt.Fprintln(w, "Every purge is verified.")
				}
				return w.Flush()
			})
		},
	}
	flags.flags(c)
	return c
}
