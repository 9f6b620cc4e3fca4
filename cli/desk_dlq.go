package cli

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/remind"
)

func newDLQ() *cobra.Command {
	c := &cobra.Command{
		Use:   "dlq",
		Short: "Look at steps that were given up, try them again, or drop them",
		Long: "A step of an item's life that keeps failing (archive, erase, …) is tried again with longer and longer pauses; after the\n" +
			"last try it becomes a dead letter. The item itself stays as the last good step left it: nothing is lost by it.",
		Example: "  mayfly dlq list\n  mayfly dlq show ID\n  mayfly dlq retry ID --reason 'the bucket is back'\n  mayfly dlq retry --all --step archive --reason 'the bucket is back'",
	}
	c.AddCommand(newDLQList(), newDLQShow(), newDLQRetry(), newDLQDrop())
	return c
}

// dlq is what the verbs of the dead letters share.
type dlq struct {
	desk desk
	deed deed
	step string
	all  bool
}

func (q *dlq) stepFlag(c *cobra.Command) {
	c.Flags().StringVar(&q.step, "step", "", "only this step: announce, expire, archive, erase, tidy or retire")
}

// each hands every dead letter of the asked step to do.
func (q *dlq) each(ctx context.Context, do func(remind.Dead) error) error {
	var step remind.Step
	if q.step != "" {
		var err error
		if step, err = remind.ParseStep(q.step); err != nil {
			return usage(err)
		}
	}
	const page = 500
	for shard := range mayfly.Shard(mayfly.Shards) {
		for last, full := (remind.Dead{}), true; full; {
			found, err := remind.DeadLetters(ctx, q.desk.store.Set.Rows, shard, last, page)
			if err != nil {
				return err
			}
			for _, dead := range found {
				if step != 0 && dead.Step != step {
					continue
				}
				if err := do(dead); err != nil {
					return err
				}
			}
			if full = len(found) == page; full {
				last = found[page-1]
			}
		}
	}
	return nil
}

// chosen are the dead letters that the arguments name.
func (q *dlq) chosen(ctx context.Context, args []string) (all []remind.Dead, err error) {
	if q.all == (len(args) == 1) {
		return nil, usage(errors.New("name one item, or say --all"))
	}
	var id mayfly.ID
	if !q.all {
		if id, err = idOf(args); err != nil {
			return nil, err
		}
	}
	err = q.each(ctx, func(dead remind.Dead) error {
		if q.all || dead.ID == id {
			all = append(all, dead)
		}
		return nil
	})
	if err == nil && len(all) == 0 {
		err = mayfly.Errorf(mayfly.NotFound, "there is no such dead letter").WithHint("mayfly dlq list shows those that there are")
	}
	return all, err
}

func newDLQList() *cobra.Command {
	q := &dlq{}
	c := &cobra.Command{Use: "list", Short: "List the dead letters", Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error {
		return q.desk.at(c.Context(), func(ctx context.Context, _ mayfly.Instant) error {
			w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
			n := 0
			err := q.each(ctx, func(d remind.Dead) error {
				if n == 0 {
					fmt.Fprintln(w, "ITEM\tSTEP\tTRIES\tGIVEN UP\tLAST REASON")
				}
				n++
				fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%.80s\n", d.ID, d.Step, d.Tries, d.Since, lastReason(d))
				return nil
			})
			if n == 0 && err == nil {
				fmt.Fprintln(w, "There are no dead letters.")
			}
			return errors.Join(err, w.Flush())
		})
	}}
	q.desk.flags(c)
	q.stepFlag(c)
	return c
}

func lastReason(d remind.Dead) string {
	if len(d.History) == 0 {
		return d.Reason
	}
	return d.History[len(d.History)-1].Reason
}

func newDLQShow() *cobra.Command {
	q := &dlq{}
	c := &cobra.Command{Use: "show ID", Short: "Show a dead letter with its last tries", Args: cobra.ExactArgs(1), RunE: func(c *cobra.Command, args []string) error {
		return q.desk.at(c.Context(), func(ctx context.Context, _ mayfly.Instant) error {
			all, err := q.chosen(ctx, args)
			for _, d := range all {
				fmt.Fprintf(c.OutOrStdout(), "%s: %s was given up at %s after %d tries\n", d.ID, d.Step, d.Since, d.Tries)
				if d.Reason != "" {
					fmt.Fprintf(c.OutOrStdout(), "  it was to be done because: %s\n", d.Reason)
				}
				for _, t := range d.History {
					fmt.Fprintf(c.OutOrStdout(), "  %s  %s\n", t.At, t.Reason)
				}
			}
			return err
		})
	}}
	q.desk.flags(c)
	q.stepFlag(c)
	return c
}

// soon is when a dead letter that is tried again is due: as far ahead as every
// reminder.
const soon = 2 * time.Minute

func newDLQRetry() *cobra.Command {
	q := &dlq{}
	c := &cobra.Command{
		Use: "retry [ID]", Short: "Put dead letters on their way again", Args: cobra.MaximumNArgs(1),
		Long: "The step is due again two minutes later, with fresh tries: once a node serves the folder it will be done.",
		RunE: func(c *cobra.Command, args []string) error {
			return q.desk.at(c.Context(), func(ctx context.Context, now mayfly.Instant) error {
				all, err := q.chosen(ctx, args)
				if err != nil {
					return err
				}
				n, err := q.desk.node.RetryDead(ctx, all, q.deed.by, q.deed.reason, now.Add(soon), now)
				fmt.Fprintf(c.OutOrStdout(), "%d of %d will be tried again\n", n, len(all))
				return err
			})
		},
	}
	q.desk.flags(c)
	q.deed.flags(c)
	q.stepFlag(c)
	c.Flags().BoolVar(&q.all, "all", false, "all of them, or all of --step")
	return c
}

func newDLQDrop() *cobra.Command {
	q := &dlq{}
	c := &cobra.Command{
		Use: "drop ID", Short: "Forget a dead letter: its step is not done", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return q.desk.at(c.Context(), func(ctx context.Context, now mayfly.Instant) error {
				all, err := q.chosen(ctx, args)
				if err != nil {
					return err
				}
				for _, d := range all {
					if err := q.desk.node.DropDead(ctx, d, q.deed.by, q.deed.reason, now); err != nil {
						return err
					}
					fmt.Fprintf(c.OutOrStdout(), "%s: %s is dropped\n", d.ID, d.Step)
				}
				return nil
			})
		},
	}
	q.desk.flags(c)
	q.deed.flags(c)
	q.stepFlag(c)
	return c
}
