package cli

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly/app/admin"
)

func newHeld() *cobra.Command {
	var flags adminFlags
	c := &cobra.Command{
		Use: "held", Short: "List the items that are held", Args: cobra.NoArgs, Example: "  mayfly held",
		Long: "Lists what is held, of every product, the oldest hour first: by support, or since its birth where new posts wait for a\n" +
			"moderator (feed.hold). mayfly release ID releases an item.\n\n" + adminHelp,
		RunE: func(c *cobra.Command, _ []string) error {
			return flags.do(c, nil, func(ctx context.Context, api admin.API) error {
				w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
				n := 0
				for item, err := range api.Held(ctx) {
					if err != nil {
						return errors.Join(err, w.Flush())
					}
					if n == 0 {
						fmt.Fprintln(w, "ID\tPRODUCT\tAUTHOR\tSTATE\tSINCE")
					}
					n++
					author := "-"
					if item.Author != nil {
						author = item.Author.String()
					}
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", item.ID, item.Product, author, item.State, item.Since)
				}
				if n == 0 {
					fmt.Fprintln(w, "Nothing is held.")
				}
				return w.Flush()
			})
		},
	}
	flags.flags(c)
	return c
}
