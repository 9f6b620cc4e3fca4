package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/engine/verify"
)

func newVerify() *cobra.Command {
	v := verifyCommand{}
	c := &cobra.Command{
		Use:   "verify",
		Short: "Hold every stored item against its media, and every medium against its item",
		Long: "Reads the whole ledger of a data folder that no process is using (in one that is served, items move while they are looked\n" +
			"at, and what is whole would look lost): each row against its content and its media in both\n" +
			"tiers, each object against the row that names it. It changes nothing. The verdict counts seven words; all must be 0:\n" +
			"  LOST         something that must be there has no whole copy\n" +
			"  RESURRECTED  an item of an account that was erased\n" +
			"  EARLY        ended before its end\n" +
			"  LATE         waits for a step that was due hours ago\n" +
			"  LEAK         (cannot be seen from the folder; always 0 here)\n" +
			"  DOUBLE       media that two items own\n" +
			"  ORPHAN       media older than a day that no item owns\n\n" +
			"It exits with 1 if any of them is not 0. A cluster has no such folder: its nodes look for lost media and orphans and read\n" +
			"cold copies again themselves; mayfly orphans and mayfly scrub with --admin tell what they found.",
		Example: "  mayfly verify --data ./mayfly-data\n  mayfly verify --quick        sizes and stored hashes only, no bytes are read",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return v.run(c) },
	}
	v.admin.settings.flags(c)
	c.Flags().BoolVar(&v.quick, "quick", false, "do not read the bytes of media")
	return c
}

type verifyCommand struct {
	admin admin
	quick bool
}

func (v *verifyCommand) run(c *cobra.Command) error {
	if err := v.admin.load(c, nil); err != nil {
		return err
	}
	if v.admin.config.Profile == config.Cluster {
		return mayfly.Errorf(mayfly.Invalid, "verify reads a data folder, and on a cluster the items are not in one").
			WithHint("mayfly scrub and mayfly orphans tell what a node of it has found, mayfly explain ID tells of one item, each with --admin URL")
	}
	err := v.admin.onFolder(c, func(ctx context.Context, f *folder) error { return v.look(ctx, c.OutOrStdout(), f) })
	if errors.As(err, new(inUseError)) {
		return mayfly.Wrap(mayfly.Conflict, fmt.Errorf("verify needs a folder that nobody uses: %w", err),
			"stop the server, or verify a copy of the folder; of a server that runs, mayfly scrub and mayfly orphans tell what it has found itself")
	}
	return err
}

func (v *verifyCommand) look(ctx context.Context, out io.Writer, f *folder) error {
	show, end := f.show("verify", "minutes of deadlines")
	found, err := verify.Run(ctx, f.store.Set, verify.Options{
		Now: f.now, Bytes: !v.quick, Progress: func(minutes int) { show(minutes, 0) }, Each: f.node.VerifyItem,
	})
	end()
	if err != nil {
		return err
	}
	orphans, err := f.node.Desk().Orphans(ctx, "", "", allObjects, f.now)
	if err != nil {
		return err
	}
	for _, key := range orphans.Examples {
		found.Add(verify.Orphan, "%s", key)
	}
	for range orphans.Orphans - len(orphans.Examples) {
		found.Add(verify.Orphan, "an object that no item owns")
	}
	printReport(out, found, orphans)
	if !found.Clean() {
		return errWrong
	}
	return nil
}

// allObjects is more than a folder has.
const allObjects = 1 << 30

func printReport(out io.Writer, v *verify.Report, o wire.Orphans) {
	fmt.Fprintf(out, "%s items with %s media, %s bytes read; %s objects looked at the other way round\n",
		humanize.Comma(v.Items), humanize.Comma(v.Media), humanize.Comma(v.Bytes), humanize.Comma(int64(o.Looked)))
	var states []string
	for state := range v.States {
		states = append(states, state)
	}
	slices.Sort(states)
	for _, state := range states {
		fmt.Fprintf(out, "  %-14s %s\n", state, humanize.Comma(v.States[state]))
	}
	for _, line := range v.Faults() {
		fmt.Fprintln(out, line)
	}
	if o.Strange > 0 {
		fmt.Fprintf(out, "%d objects have keys that are not mayfly's; they were left alone\n", o.Strange)
	}
	fmt.Fprintln(out, &v.Tally)
}
