package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/app/admin"
)

func newExplain() *cobra.Command {
	var a adminFlags
	var viewer, at string
	var asJSON bool
	c := &cobra.Command{
		Use: "explain ID", Short: "Explain why a viewer can or cannot see a story",
		Long: "Explains in sentences what a viewer gets at an instant and why, then lists the facts behind it. It also explains ids that\n" +
			"were deleted or never existed. It asks the admin API of a running server, with an admin token made with the data folder's\n" +
			"key; if no server runs, it reads the folder.",
		Example: "  mayfly explain ID\n  mayfly explain ID --viewer ben\n  mayfly explain ID --viewer ben --at 2026-01-31T18:00:00Z",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			id, err := idOf(args)
			if err != nil {
				return err
			}
			when, err := instantOf(at)
			if err != nil {
				return usage(mayfly.Errorf(mayfly.Invalid, "invalid --at %s", at).WithHint("write an instant such as 2026-01-31T18:00:00Z"))
			}
			if !slices.Contains([]string{"", "anonymous", "moderator"}, viewer) {
				viewer = userText(viewer)
			}
			var found wire.Explanation
			ask := func(ctx context.Context, api admin.API) (err error) {
				found, err = api.Explain(ctx, id, viewer, when)
				return err
			}
			o, err := a.options(c, nil)
			if err != nil {
				return err
			}
			if err := admin.Ask(c.Context(), o, ask); err != nil {
				return fmt.Errorf("explain %s: %w", id, err)
			}
			if asJSON {
				return writeJSON(c.OutOrStdout(), found)
			}
			return printExplanation(c.OutOrStdout(), found)
		},
	}
	a.settings.flags(c)
	c.Flags().StringVar(&a.url, "admin", fromEnv("MAYFLY_ADMIN", defaultAdmin), "URL of the admin API (MAYFLY_ADMIN)")
	c.Flags().StringVar(&a.token, "token", "", "access token with the scope admin (MAYFLY_TOKEN)")
	c.Flags().StringVar(&viewer, "viewer", "", "a user's name or UUID, anonymous or moderator (default anonymous)")
	c.Flags().StringVar(&at, "at", "", "an instant such as 2026-01-31T18:00:00Z (default: now)")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func printExplanation(out io.Writer, e wire.Explanation) error {
	for _, sentence := range e.Sentences {
		fmt.Fprintln(out, sentence)
	}
	if len(e.Facts) == 0 {
		return nil
	}
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, f := range e.Facts {
		fmt.Fprintf(w, "%s\t%s\t%s\n", f.About, f.Name, f.Value)
	}
	return w.Flush()
}
