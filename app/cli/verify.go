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
	"github.com/mayflyhq/mayfly/app/admin"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/engine/verify"
)

func newVerify() *cobra.Command {
	var flags adminFlags
	var quick bool
	var erased string
	c := &cobra.Command{
		Use:   "verify",
		Short: "Check that every item has its media, and every medium its item",
		Long: "Reads the whole ledger of a data folder that no process uses and compares each row with its content and its media in hot and\n" +
			"cold storage, with the event log and with what a server would answer for it, and each stored object with the row that names\n" +
			"it. It changes nothing that a server stores. The folder must not be in use, because\n" +
			"items that move during the check would look lost. The verdict counts seven kinds of faults; all must be 0:\n" +
			"  LOST         content or media without an intact copy\n" +
			"  RESURRECTED  an item of an erased account, or behind its own events\n" +
			"  EARLY        ended, or refused to a stranger, before its deadline\n" +
			"  LATE         a step is overdue by hours, or an ended item is served\n" +
			"  LEAK         served to a stranger or to its author, who may not see it\n" +
			"  DOUBLE       media that two items own, or two events for one\n" +
			"  ORPHAN       media older than a day that no item owns, or rows of an erased item\n\n" +
			"A word that could not be measured says so, with the reason. The exit code is 1 if any of them is not 0. On a cluster the nodes check for lost media, orphans and damaged cold copies\n" +
			"themselves; mayfly orphans and mayfly scrub with --admin print what they found.",
		Example: "  mayfly verify --data ./mayfly-data\n  mayfly verify --erased '~ana'   prove that nothing of an erased user is left\n  mayfly verify --quick        compare sizes and stored hashes only",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if erased != "" {
				return verifyErased(c, &flags, erased)
			}
			return runVerify(c, &flags, quick)
		},
	}
	flags.flags(c)
	c.Flags().StringVar(&erased, "erased", "", "prove instead that nothing of this user is left, who was erased: a UUID, or ~ and the subject")
	c.Flags().BoolVar(&quick, "quick", false, "do not read the bytes of media")
	return c
}

func runVerify(c *cobra.Command, flags *adminFlags, quick bool) error {
	o, err := flags.options(c, nil)
	if err != nil {
		return err
	}
	if o.Config.Profile == config.Cluster {
		return mayfly.Errorf(mayfly.Invalid, "verify needs a data folder; on a cluster the items are in Cassandra and S3").
			WithHint("mayfly scrub and mayfly orphans print what a node has found, mayfly explain ID explains one item, each with --admin URL")
	}
	err = admin.OnFolder(c.Context(), o, func(ctx context.Context, f *admin.Folder) error {
		found, err := f.Verify(ctx, quick)
		if err != nil {
			return err
		}
		printReport(c.OutOrStdout(), found)
		if !found.Clean() {
			return errWrong
		}
		return nil
	})
	if errors.As(err, new(admin.InUseError)) {
		return mayfly.Wrap(mayfly.Conflict, fmt.Errorf("verify needs a data folder that is not in use: %w", err),
			"stop the server, or verify a copy of the folder; mayfly scrub and mayfly orphans print what a running server has found")
	}
	return err
}

// verifyErased prints what is left of a user, which is an error.
func verifyErased(c *cobra.Command, flags *adminFlags, user string) error {
	return flags.do(c, nil, func(ctx context.Context, api admin.API) error {
		left, err := api.References(ctx, user)
		if err != nil {
			return err
		}
		for _, line := range left.Examples {
			fmt.Fprintln(c.OutOrStdout(), line)
		}
		fmt.Fprintf(c.OutOrStdout(), "%s references to %s; besides %s held items, which stay, and %s objects of uploads that were never published\n",
			humanize.Comma(int64(left.Count)), user, humanize.Comma(int64(left.Held)), humanize.Comma(int64(left.Unowned)))
		if left.Count > 0 {
			return errWrong
		}
		return nil
	})
}

func printReport(out io.Writer, v *verify.Report) {
	fmt.Fprintf(out, "%s items with %s media checked, %s bytes read; %s stored objects checked\n",
		humanize.Comma(v.Items), humanize.Comma(v.Media), humanize.Comma(v.Bytes), humanize.Comma(v.Objects))
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
	if v.Strange > 0 {
		fmt.Fprintf(out, "%d objects have keys that mayfly does not use; they were skipped\n", v.Strange)
	}
	for w := range verify.Words {
		if why := v.WhyUnmeasured(w); why != "" {
			fmt.Fprintf(out, "%s was not measured: %s\n", w, why)
		}
	}
	fmt.Fprintln(out, &v.Tally)
}
