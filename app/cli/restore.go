package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/app/admin"
)

func newRestore() *cobra.Command {
	r := &restoring{}
	c := &cobra.Command{
		Use:   "restore [ID]",
		Short: "Restore an expired item for a while, or undo a whole run",
		Long: "Serves an expired item again until --until, to the users who could see it before; then it expires again. Media come from hot\n" +
			"storage until ends.archive_after, else from cold storage, within ends.restore_within. A deleted item cannot be restored.\n\n" +
			"A run is what one walk of one node did in one hour. If it was wrong, --run restores every item that the run was the last to\n" +
			"change. Without --yes it only counts them.\n\n" + adminHelp,
		Example: "  mayfly restore ID --until 24h --reason 'case 4711'\n  mayfly restore --runs\n  mayfly restore --run 9f0c…  --until 24h --reason 'clock was wrong'          counts only\n" +
			"  mayfly restore --run 9f0c…  --until 24h --reason 'clock was wrong' --yes    restores",
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return r.run(c, args) },
	}
	r.admin.flags(c)
	r.op.flags(c)
	c.Flags().StringVar(&r.until, "until", "24h", "how long it serves again: a duration or an instant")
	c.Flags().StringVar(&r.number, "run", "", "undo this run")
	c.Flags().BoolVar(&r.list, "runs", false, "list the runs since --since")
	c.Flags().DurationVar(&r.since, "since", 24*time.Hour, "with --runs: how long ago")
	c.Flags().BoolVar(&r.yes, "yes", false, "with --run: restore, instead of counting only")
	c.Flags().IntVar(&r.max, "max", 0, "with --run: refuse a run of more items (default 10,000)")
	return c
}

type restoring struct {
	admin     adminFlags
	op        operation
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
		return usage(errors.New("name one item, or pass --run RUN, or --runs"))
	}
	switch {
	case r.list:
		return r.admin.do(c, nil, func(ctx context.Context, api admin.API) error { return r.runs(ctx, c, api) })
	case r.number != "":
		return r.undo(c)
	}
	return r.item(c, args)
}

func (r *restoring) item(c *cobra.Command, args []string) error {
	id, err := idOf(args)
	if err != nil {
		return err
	}
	return r.admin.do(c, &r.op, func(ctx context.Context, api admin.API) error {
		until, err := untilOf(r.until, api.Now)
		if err != nil {
			return err
		}
		restored, err := api.Restore(ctx, wire.RestoreRequest{ID: &id, Until: &until, Reason: r.op.reason})
		if err != nil {
			return admin.OrAbsent(err, "item %s", id)
		}
		fmt.Fprintf(c.OutOrStdout(), "%s serves again until %s\n", id, restored.ServesUntil)
		return nil
	})
}

func (r *restoring) runs(ctx context.Context, c *cobra.Command, api admin.API) error {
	w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "RUN\tWALK\tSHARD\tBEGAN\tFROM DEADLINE")
	n := 0
	for run, err := range api.Runs(ctx, api.Now.Add(-r.since)) {
		if err != nil {
			return errors.Join(err, w.Flush())
		}
		n++
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\n", run.Run, run.Walk, run.Shard, run.Began, run.From)
	}
	if n == 0 {
		fmt.Fprintf(w, "none in the last %s\n", r.since)
	}
	return w.Flush()
}

func (r *restoring) undo(c *cobra.Command) error {
	if _, err := strconv.ParseUint(r.number, 16, 64); err != nil {
		return usage(fmt.Errorf("invalid --run %q: a run has 16 hexadecimal digits; mayfly restore --runs lists them", r.number))
	}
	who := &r.op
	if !r.yes { // nothing is changed and nothing is recorded
		who, r.op.reason = nil, "to count"
	}
	return r.admin.do(c, who, func(ctx context.Context, api admin.API) error {
		until, err := untilOf(r.until, api.Now)
		if err != nil {
			return err
		}
		done, err := api.Restore(ctx, wire.RestoreRequest{Run: r.number, Until: &until, Reason: r.op.reason, DryRun: !r.yes, Max: r.max})
		if err != nil && done.Found == 0 {
			return admin.OrAbsent(err, "run %s", r.number)
		}
		r.print(c.OutOrStdout(), done)
		if done.Failed > 0 && err == nil {
			err = mayfly.Errorf(mayfly.Unavailable, "%d of %d items could not be restored", done.Failed, done.Found).WithHint("run it again: restored items are not changed")
		}
		return err
	})
}

func (r *restoring) print(out io.Writer, done wire.Restored) {
	fmt.Fprintf(out, "%d items can be restored, %d of them before their deadline; %d are held, %d deleted\n", done.Found, done.Ahead, done.Held, done.Deleted)
	if r.yes {
		fmt.Fprintf(out, "%d restored, %d refused, %d failed; %d watermarks moved back\n", done.Restored, done.Refused, done.Failed, done.Back)
	} else {
		fmt.Fprintln(out, "Nothing was changed; pass --yes to restore them.")
	}
	for _, why := range done.Why {
		fmt.Fprintf(out, "  %s\n", why)
	}
}

// untilOf parses an instant, or a duration from now.
func untilOf(text string, now mayfly.Instant) (mayfly.Instant, error) {
	if l, err := mayfly.ParseLifetime(text); err == nil && l != mayfly.Never {
		return now.Add(l.Duration()), nil
	}
	var at mayfly.Instant
	if err := at.UnmarshalText([]byte(text)); err != nil {
		return 0, usage(fmt.Errorf("invalid --until %q: write a duration such as 24h, or an instant such as %s", text, now.Add(24*time.Hour)))
	}
	return at, nil
}
