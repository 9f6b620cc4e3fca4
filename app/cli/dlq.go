package cli

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/app/admin"
	"github.com/mayflyhq/mayfly/engine/remind"
)

func newDLQ() *cobra.Command {
	c := &cobra.Command{
		Use:   "dlq",
		Short: "List failed steps (dead letters), retry or drop them",
		Long: "A step of an item (archive, erase, …) that fails is retried with growing pauses. After the last attempt it becomes a dead\n" +
			"letter. The item stays as the last successful step left it: nothing is lost.\n\n" + adminHelp,
		Example: "  mayfly dlq list\n  mayfly dlq show ID\n  mayfly dlq retry ID --reason 'the bucket is back'\n  mayfly dlq retry --all --step archive --reason 'the bucket is back'",
	}
	c.AddCommand(newDLQList(), newDLQShow(), newDLQRetry(), newDLQDrop())
	return c
}

// dlq holds the flags of the dead letter verbs.
type dlq struct {
	admin adminFlags
	op    operation
	step  string
	all   bool
}

func (q *dlq) stepFlag(c *cobra.Command) {
	c.Flags().StringVar(&q.step, "step", "", "only this step: announce, expire, archive, erase, tidy or retire")
}

// check returns the item that the arguments name, or none with --all.
func (q *dlq) check(args []string) (item mayfly.ID, err error) {
	if q.step != "" {
		if _, err := remind.ParseStep(q.step); err != nil {
			return item, usage(err)
		}
	}
	if q.all == (len(args) == 1) {
		return item, usage(errors.New("name one item, or pass --all"))
	}
	if q.all {
		return item, nil
	}
	return idOf(args)
}

// chosen returns the dead letters that the arguments name.
func (q *dlq) chosen(ctx context.Context, api admin.API, item mayfly.ID) (all []wire.DeadLetter, err error) {
	for letter, err := range api.DeadLettersOf(ctx, item, q.step) {
		if err != nil {
			return nil, err
		}
		all = append(all, letter)
	}
	if len(all) == 0 {
		return nil, mayfly.Errorf(mayfly.NotFound, "no such dead letter").WithHint("mayfly dlq list prints all of them")
	}
	return all, nil
}

func newDLQList() *cobra.Command {
	q := &dlq{all: true}
	c := &cobra.Command{Use: "list", Short: "List the dead letters", Args: cobra.NoArgs, RunE: func(c *cobra.Command, args []string) error {
		if _, err := q.check(args); err != nil {
			return err
		}
		return q.admin.do(c, nil, func(ctx context.Context, api admin.API) error {
			w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
			n := 0
			for d, err := range api.DeadLettersOf(ctx, mayfly.ID{}, q.step) {
				if err != nil {
					return errors.Join(err, w.Flush())
				}
				if n == 0 {
					fmt.Fprintln(w, "ITEM\tSTEP\tATTEMPTS\tSINCE\tLAST ERROR")
				}
				n++
				fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%.80s\n", d.Item, d.Step, d.Attempts, d.Since, lastReason(d))
			}
			if n == 0 {
				fmt.Fprintln(w, "There are no dead letters.")
			}
			return w.Flush()
		})
	}}
	q.admin.flags(c)
	q.stepFlag(c)
	return c
}

func lastReason(d wire.DeadLetter) string {
	if len(d.Tries) == 0 {
		return d.Reason
	}
	return d.Tries[len(d.Tries)-1].Reason
}

func newDLQShow() *cobra.Command {
	q := &dlq{}
	c := &cobra.Command{Use: "show ID", Short: "Show a dead letter with its last attempts", Args: cobra.ExactArgs(1), RunE: func(c *cobra.Command, args []string) error {
		item, err := q.check(args)
		if err != nil {
			return err
		}
		return q.admin.do(c, nil, func(ctx context.Context, api admin.API) error {
			all, err := q.chosen(ctx, api, item)
			for _, d := range all {
				fmt.Fprintf(c.OutOrStdout(), "%s: %s failed at %s after %d attempts\n", d.Item, d.Step, d.Since, d.Attempts)
				if d.Reason != "" {
					fmt.Fprintf(c.OutOrStdout(), "  reason of the step: %s\n", d.Reason)
				}
				for _, t := range d.Tries {
					fmt.Fprintf(c.OutOrStdout(), "  %s  %s\n", t.At, t.Reason)
				}
			}
			return err
		})
	}}
	q.admin.flags(c)
	q.stepFlag(c)
	return c
}

func newDLQRetry() *cobra.Command {
	q := &dlq{}
	c := &cobra.Command{
		Use: "retry [ID]", Short: "Retry dead letters", Args: cobra.MaximumNArgs(1),
		Long: "Schedules the step again in two minutes, with all its attempts. A running server then executes it.",
		RunE: func(c *cobra.Command, args []string) error {
			item, err := q.check(args)
			if err != nil {
				return err
			}
			return q.admin.do(c, &q.op, func(ctx context.Context, api admin.API) error {
				all, err := q.chosen(ctx, api, item)
				if err != nil {
					return err
				}
				n := 0
				for _, d := range all {
					if err = admin.OrAbsent(api.RetryDeadLetter(ctx, d.Item, d.Step, q.op.reason), "dead letter for %s of %s", d.Step, d.Item); err != nil {
						break
					}
					n++
				}
				fmt.Fprintf(c.OutOrStdout(), "%d of %d will be retried\n", n, len(all))
				return err
			})
		},
	}
	q.admin.flags(c)
	q.op.flags(c)
	q.stepFlag(c)
	c.Flags().BoolVar(&q.all, "all", false, "all dead letters, or all of --step")
	return c
}

func newDLQDrop() *cobra.Command {
	q := &dlq{}
	c := &cobra.Command{
		Use: "drop ID", Short: "Remove a dead letter without executing its step", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			item, err := q.check(args)
			if err != nil {
				return err
			}
			return q.admin.do(c, &q.op, func(ctx context.Context, api admin.API) error {
				all, err := q.chosen(ctx, api, item)
				for _, d := range all {
					if err := admin.OrAbsent(api.DropDeadLetter(ctx, d.Item, d.Step, q.op.reason), "dead letter for %s of %s", d.Step, d.Item); err != nil {
						return err
					}
					fmt.Fprintf(c.OutOrStdout(), "%s: %s is dropped\n", d.Item, d.Step)
				}
				return err
			})
		},
	}
	q.admin.flags(c)
	q.op.flags(c)
	q.stepFlag(c)
	return c
}
