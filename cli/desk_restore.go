package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/restore"
	"github.com/mayflyhq/mayfly/walk"
)

func newRestore() *cobra.Command {
	r := &restoring{}
	c := &cobra.Command{
		Use:   "restore [ID]",
		Short: "Bring an expired item back for a while, or undo a whole run",
		Long: "An expired item serves again until --until, to those who could see it before, and then ends once more by itself: from hot\n" +
			"storage within the safety window, from cold storage within 30 days. What is deleted cannot come back.\n\n" +
			"A run is what one node did by one walk in one hour. If it went wrong, --run brings back everything that it was the last to\n" +
			"move; it first counts, and does it only with --yes.",
		Example: "  mayfly restore ID --until 24h --reason 'case 4711'\n  mayfly restore --runs\n  mayfly restore --run 9f0c…  --until 24h --reason 'clock was wrong'          counts\n" +
			"  mayfly restore --run 9f0c…  --until 24h --reason 'clock was wrong' --yes    does it",
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return r.run(c, args) },
	}
	r.desk.flags(c)
	r.deed.flags(c)
	c.Flags().StringVar(&r.until, "until", "24h", "how long it serves again: a span or an instant")
	c.Flags().StringVar(&r.number, "run", "", "undo this run")
	c.Flags().BoolVar(&r.list, "runs", false, "list the runs since --since")
	c.Flags().DurationVar(&r.since, "since", 24*time.Hour, "with --runs: how far back")
	c.Flags().BoolVar(&r.yes, "yes", false, "with --run: do it, do not only count")
	c.Flags().IntVar(&r.max, "max", 0, "with --run: restore at most so many (default 10,000)")
	return c
}

type restoring struct {
	desk      desk
	deed      deed
	until     string
	number    string
	list, yes bool
	since     time.Duration
	max       int
}

func (r *restoring) run(c *cobra.Command, args []string) error {
	asked := 0
	for _, yes := range []bool{len(args) == 1, r.number != "", r.list} {
		if yes {
			asked++
		}
	}
	if asked != 1 {
		return usage(errors.New("name one item, or say --run RUN, or --runs"))
	}
	return r.desk.at(c.Context(), func(ctx context.Context, now mayfly.Instant) error {
		switch {
		case r.list:
			return r.runs(ctx, c, now)
		case r.number != "":
			return r.undo(ctx, c, now)
		}
		return r.item(ctx, c, args, now)
	})
}

func (r *restoring) item(ctx context.Context, c *cobra.Command, args []string, now mayfly.Instant) error {
	id, err := idOf(args)
	if err != nil {
		return err
	}
	until, err := untilOf(r.until, now)
	if err != nil {
		return err
	}
	item, err := r.desk.node.Restore().Item(ctx, restore.Request{ID: id, Until: until, By: r.deed.by, Reason: r.deed.reason}, now)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.OutOrStdout(), "%s serves again until %s\n", item.ID, item.ServesUntil)
	return nil
}

func (r *restoring) runs(ctx context.Context, c *cobra.Command, now mayfly.Instant) error {
	w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "RUN\tWALK\tSHARD\tBEGAN\tFROM DEADLINE")
	n := 0
	for at := now.Add(-r.since); at < now.Add(time.Hour); at = at.Add(time.Hour) {
		runs, err := walk.RunsIn(ctx, r.desk.store.Set.Rows, at, 10_000)
		if err != nil {
			return err
		}
		for _, run := range runs {
			n++
			fmt.Fprintf(w, "%016x\t%s\t%d\t%s\t%s\n", uint64(run.Number), run.Walk, run.Shard, run.Began, run.From)
		}
	}
	if n == 0 {
		fmt.Fprintf(w, "none in the last %s\n", r.since)
	}
	return w.Flush()
}

func (r *restoring) undo(ctx context.Context, c *cobra.Command, now mayfly.Instant) error {
	number, err := strconv.ParseUint(r.number, 16, 64)
	if err != nil {
		return usage(fmt.Errorf("--run %q: a run has 16 hexadecimal digits; mayfly restore --runs lists them", r.number))
	}
	until, err := untilOf(r.until, now)
	if err != nil {
		return err
	}
	steps, began, shown := newStages(c.ErrOrStderr(), false), (*stage)(nil), 0
	steps.trial("undo")
	done, err := r.desk.node.Restore().Undo(ctx, mayfly.Run(number), restore.UndoRequest{
		Until: until, By: r.deed.by, Reason: r.deed.reason, DryRun: !r.yes, Max: r.max,
		Progress: func(u restore.Undone) {
			if began == nil {
				began = steps.begin("items", u.Found)
			}
			began.add(u.Restored - shown)
			shown = u.Restored
		},
	}, now)
	if began != nil {
		began.end()
	}
	out := c.OutOrStdout()
	fmt.Fprintf(out, "%d items may come back, %d of them before their deadline; %d are held, %d deleted\n", done.Found, done.Ahead, done.Held, done.Deleted)
	if r.yes {
		fmt.Fprintf(out, "%d restored, %d refused, %d failed; %d watermarks moved back\n", done.Restored, done.Refused, done.Failed, done.Back)
	} else if err == nil {
		fmt.Fprintln(out, "Nothing was done: say --yes to do it.")
	}
	for _, why := range done.Why {
		fmt.Fprintf(out, "  %v\n", why)
	}
	return err
}
