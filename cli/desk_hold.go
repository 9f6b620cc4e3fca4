package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly"
)

func newHold() *cobra.Command {
	h := &holding{}
	c := &cobra.Command{
		Use: "hold ID", Short: "Hide an item from everyone but moderators and keep its bytes",
		Long: "A held item is hidden at once, from its author too, and nothing erases it, whatever else falls due, until it is released:\n" +
			"for a legal hold, or a take-down that may be appealed.",
		Example: "  mayfly hold ID --reason 'case 4711'",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return h.run(c, args, func(ctx context.Context, id mayfly.ID, now mayfly.Instant) error {
				return h.desk.node.Restore().Hold(ctx, id, h.deed.by, h.deed.reason, now)
			}, "held")
		},
	}
	h.desk.flags(c)
	h.deed.flags(c)
	return c
}

func newRelease() *cobra.Command {
	h := &holding{}
	c := &cobra.Command{
		Use: "release ID", Short: "Lift a hold: the item goes on with its life", Example: "  mayfly release ID --reason 'case 4711 is closed'",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return h.run(c, args, func(ctx context.Context, id mayfly.ID, now mayfly.Instant) error {
				return h.desk.node.Restore().Release(ctx, id, h.deed.by, h.deed.reason, now)
			}, "released")
		},
	}
	h.desk.flags(c)
	h.deed.flags(c)
	return c
}

type holding struct {
	desk desk
	deed deed
}

func (h *holding) run(c *cobra.Command, args []string, do func(context.Context, mayfly.ID, mayfly.Instant) error, word string) error {
	id, err := idOf(args)
	if err != nil {
		return err
	}
	return h.desk.at(c.Context(), func(ctx context.Context, now mayfly.Instant) error {
		if err := do(ctx, id, now); err != nil {
			return err
		}
		fmt.Fprintf(c.OutOrStdout(), "%s is %s\n", id, word)
		return nil
	})
}
