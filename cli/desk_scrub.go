package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/erase"
	"github.com/mayflyhq/mayfly/walk"
)

func newScrub() *cobra.Command {
	s := scrub{}
	c := &cobra.Command{
		Use:   "scrub",
		Short: "Read every archived medium again and compare it with what was uploaded",
		Long: "Reads all cold copies of a data folder that no process is using, and names those that are not what was uploaded. A process\n" +
			"that serves does the same all the time, slowly. It erases nothing. Where an item's archiving has not finished and its hot copy\n" +
			"is whole, the item is put back on its way, and is copied again when the folder is served.\n\n" +
			"It exits with 1 if a copy does not match.",
		Example: "  mayfly scrub --data ./mayfly-data\n  mayfly scrub --rate 64        at most 64 MiB a second",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return s.run(c) },
	}
	s.desk.flags(c)
	c.Flags().Int64Var(&s.rate, "rate", 1024, "how many MiB are read a second at most")
	return c
}

type scrub struct {
	desk desk
	rate int64
}

func (s *scrub) run(c *cobra.Command) error {
	if s.rate < 1 || s.rate > 1<<20 {
		return usage(fmt.Errorf("--rate %d: write a number of MiB from 1 on", s.rate))
	}
	return s.desk.at(c.Context(), func(ctx context.Context, now mayfly.Instant) error {
		origin, err := walk.Origin(ctx, s.desk.store.Set.Rows, now)
		if err != nil {
			return err
		}
		steps, began, shown := newStages(c.ErrOrStderr(), false), (*stage)(nil), 0
		steps.trial("scrub")
		found, err := s.desk.node.Erase().Scrub(ctx, erase.ScrubRun{
			Rows: erase.Span{From: origin, To: now}, Now: now, BytesPerSecond: s.rate << 20,
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
		tellScrubbed(c.OutOrStdout(), found)
		switch {
		case err != nil:
			return err
		case found.BadObjects > 0:
			return errWrong
		}
		return nil
	})
}

func tellScrubbed(out io.Writer, r erase.ScrubReport) {
	fmt.Fprintf(out, "%s items with %s cold media, %s bytes read, %s do not match\n",
		grouped(int64(r.Items)), grouped(int64(r.Objects)), grouped(r.Bytes), grouped(int64(r.BadObjects)))
	for _, bad := range r.Bad {
		fmt.Fprintf(out, "  %s of %s: %s\n", bad.Key, bad.Item, bad.Why)
	}
	if over := r.BadObjects - len(r.Bad); over > 0 {
		fmt.Fprintf(out, "  and %s more\n", grouped(int64(over)))
	}
	if r.Again > 0 {
		fmt.Fprintf(out, "%s items will be copied again from hot\n", grouped(int64(r.Again)))
	}
}
