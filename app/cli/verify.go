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
		Short: "Check that every item has its media, and every medium its item",
		Long: "Reads the whole ledger of a data folder that no process uses and compares each row with its content and its media in hot and\n" +
			"cold storage, and each stored object with the row that names it. It changes nothing. The folder must not be in use, because\n" +
			"items that move during the check would look lost. The verdict counts seven kinds of faults; all must be 0:\n" +
			"  LOST         content or media without an intact copy\n" +
			"  RESURRECTED  an item of an erased account\n" +
			"  EARLY        ended before its deadline\n" +
			"  LATE         a step is overdue by hours\n" +
			"  LEAK         (cannot be checked on a folder; always 0 here)\n" +
			"  DOUBLE       media that two items own\n" +
			"  ORPHAN       media older than a day that no item owns\n\n" +
			"The exit code is 1 if any of them is not 0. On a cluster the nodes check for lost media, orphans and damaged cold copies\n" +
			"themselves; mayfly orphans and mayfly scrub with --admin print what they found.",
		Example: "  mayfly verify --data ./mayfly-data\n  mayfly verify --quick        compare sizes and stored hashes only",
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
		return mayfly.Errorf(mayfly.Invalid, "verify needs a data folder; on a cluster the items are in Cassandra and S3").
			WithHint("mayfly scrub and mayfly orphans print what a node has found, mayfly explain ID explains one item, each with --admin URL")
	}
	err := v.admin.onFolder(c, func(ctx context.Context, f *folder) error { return v.look(ctx, c.OutOrStdout(), f) })
	if errors.As(err, new(inUseError)) {
		return mayfly.Wrap(mayfly.Conflict, fmt.Errorf("verify needs a data folder that is not in use: %w", err),
			"stop the server, or verify a copy of the folder; mayfly scrub and mayfly orphans print what a running server has found")
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
	orphans, err := f.node.AdminOperations().Orphans(ctx, "", "", allObjects, f.now)
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

// allObjects is larger than the number of objects in any folder.
const allObjects = 1 << 30

func printReport(out io.Writer, v *verify.Report, o wire.Orphans) {
	fmt.Fprintf(out, "%s items with %s media checked, %s bytes read; %s stored objects checked\n",
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
		fmt.Fprintf(out, "%d objects have keys that mayfly does not use; they were skipped\n", o.Strange)
	}
	fmt.Fprintln(out, &v.Tally)
}
