package cli

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/erase"
	"github.com/mayflyhq/mayfly/node"
)

func newVerify() *cobra.Command {
	v := verify{}
	c := &cobra.Command{
		Use:   "verify",
		Short: "Hold every stored item against its media, and every medium against its item",
		Long: "Reads the whole ledger of a data folder that no process is using: each row against its content and its media in both\n" +
			"tiers, each object against the row that names it. It changes nothing. The verdict counts seven words; all must be 0:\n" +
			"  LOST         something that must be there has no whole copy\n" +
			"  RESURRECTED  an item of an account that was erased\n" +
			"  EARLY        ended before its end\n" +
			"  LATE         waits for a step that was due hours ago\n" +
			"  LEAK         (cannot be seen from the folder; always 0 here)\n" +
			"  DOUBLE       media that two items own\n" +
			"  ORPHAN       media older than a day that no item owns\n\n" +
			"It exits with 1 if any of them is not 0.",
		Example: "  mayfly verify --data ./mayfly-data\n  mayfly verify --quick        sizes and stored hashes only, no bytes are read",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return v.run(c) },
	}
	v.desk.flags(c)
	c.Flags().BoolVar(&v.quick, "quick", false, "do not read the bytes of media")
	return c
}

type verify struct {
	desk  desk
	quick bool
}

func (v *verify) run(c *cobra.Command) error {
	return v.desk.at(c.Context(), func(ctx context.Context, now mayfly.Instant) error {
		steps, began, shown := newStages(c.ErrOrStderr(), false), (*stage)(nil), 0
		steps.trial("verify")
		found, err := node.Verify(ctx, v.desk.store.Set, node.Verification{
			Now: now, Bytes: !v.quick,
			Progress: func(done, of int) {
				if began == nil {
					began = steps.begin("minutes of deadlines", of)
				}
				began.add(done - shown)
				shown = done
			},
		})
		if began != nil {
			began.end()
		}
		if err != nil {
			return err
		}
		orphans, err := v.desk.node.Erase().Orphans(ctx, erase.OrphanRun{Now: now, Floor: v.desk.config.Ends.OrphanAge, Most: 1 << 30})
		if err != nil {
			return err
		}
		for _, key := range orphans.Examples {
			found.Found = append(found.Found, fmt.Sprintf("%-11s %s", "ORPHAN", key))
		}
		found.Orphan += int64(orphans.Orphans)
		tellVerified(c.OutOrStdout(), found, orphans)
		if found.Wrong() > 0 {
			return errWrong
		}
		return nil
	})
}

func tellVerified(out io.Writer, v *node.Verified, o erase.OrphanReport) {
	fmt.Fprintf(out, "%s items with %s media, %s bytes read; %s objects looked at the other way round\n",
		grouped(v.Items), grouped(v.Media), grouped(v.Bytes), grouped(int64(o.Looked)))
	var states []string
	for state := range v.States {
		states = append(states, state)
	}
	slices.Sort(states)
	for _, state := range states {
		fmt.Fprintf(out, "  %-14s %s\n", state, grouped(v.States[state]))
	}
	for _, line := range v.Found {
		fmt.Fprintln(out, line)
	}
	if o.Strange > 0 {
		fmt.Fprintf(out, "%d objects have keys that are not mayfly's; they were left alone\n", o.Strange)
	}
	fmt.Fprintf(out, "LOST %d  RESURRECTED %d  EARLY %d  LATE %d  LEAK %d  DOUBLE %d  ORPHAN %d\n",
		v.Lost, v.Resurrected, v.Early, v.Late, v.Leak, v.Double, v.Orphan)
}
