package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly/app/admin"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/client"
)

func newHold() *cobra.Command {
	return newHolding(&cobra.Command{
		Use: "hold ID", Short: "Hide an item from everyone but moderators and keep its bytes",
		Long: "A held item is hidden immediately, also from its author, and is not erased until it is released. Use it for a legal hold,\n" +
			"or for a take-down that may be appealed.\n\n" + adminHelp,
		Example: "  mayfly hold ID --reason 'case 4711'",
	}, "held", (*client.Client).Hold)
}

func newRelease() *cobra.Command {
	return newHolding(&cobra.Command{
		Use: "release ID", Short: "Release a held item", Long: "Releases a held item: it is served, archived or erased as if it had not been held.\n\n" + adminHelp,
		Example: "  mayfly release ID --reason 'case 4711 is closed'",
	}, "released", (*client.Client).Release)
}

func newHolding(c *cobra.Command, word string, do func(*client.Client, context.Context, mayfly.ID, string) error) *cobra.Command {
	var a adminFlags
	var op operation
	c.Args = cobra.ExactArgs(1)
	c.RunE = func(c *cobra.Command, args []string) error {
		id, err := idOf(args)
		if err != nil {
			return err
		}
		return a.do(c, &op, func(ctx context.Context, api admin.API) error {
			if err := admin.OrAbsent(do(api.Client, ctx, id, op.reason), "item %s", id); err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "%s is %s\n", id, word)
			return nil
		})
	}
	a.flags(c)
	op.flags(c)
	return c
}
