package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly"
)

func newHold() *cobra.Command {
	return newHolding(&cobra.Command{
		Use: "hold ID", Short: "Hide an item from everyone but moderators and keep its bytes",
		Long: "A held item is hidden at once, from its author too, and nothing erases it, whatever else falls due, until it is released:\n" +
			"for a legal hold, or a take-down that may be appealed.\n\n" + eitherDesk,
		Example: "  mayfly hold ID --reason 'case 4711'",
	}, "held", desk.hold)
}

func newRelease() *cobra.Command {
	return newHolding(&cobra.Command{
		Use: "release ID", Short: "Lift a hold: the item goes on with its life", Long: "Lifts a hold: the item goes on with its life.\n\n" + eitherDesk,
		Example: "  mayfly release ID --reason 'case 4711 is closed'",
	}, "released", desk.release)
}

// eitherDesk is what the help of each verb says about where it works.
const eitherDesk = "It works on a data folder that nobody uses, or through the server that uses it: then the server does it, and writes down who\n" +
	"asked. --admin names a server elsewhere."

func newHolding(c *cobra.Command, word string, do func(desk, context.Context, mayfly.ID, deed) error) *cobra.Command {
	var d deskChoice
	var who deed
	c.Args = cobra.ExactArgs(1)
	c.RunE = func(c *cobra.Command, args []string) error {
		id, err := idOf(args)
		if err != nil {
			return err
		}
		return d.at(c, &who, func(ctx context.Context, at desk) error {
			if err := do(at, ctx, id, who); err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "%s is %s\n", id, word)
			return nil
		})
	}
	d.flags(c)
	who.flags(c)
	return c
}
