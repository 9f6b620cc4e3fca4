package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/audit"
)

func newAudit() *cobra.Command {
	c := &cobra.Command{
		Use: "audit", Short: "Read and verify the record of what support and operators did",
		Example: "  mayfly audit list\n  mayfly audit verify\n  mayfly audit verify --heads > heads.txt     keep them elsewhere\n  mayfly audit verify --against heads.txt",
	}
	c.AddCommand(newAuditList(), newAuditVerify())
	return c
}

func newAuditList() *cobra.Command {
	var d desk
	var limit int
	c := &cobra.Command{Use: "list", Short: "List the records, newest first", Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error {
		return d.at(c.Context(), func(ctx context.Context, _ mayfly.Instant) error {
			w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "AT\tWHO\tWHAT\tOUTCOME\tSUBJECT\tREASON\tDETAIL")
			left, place := limit, audit.Place{}
			for more := true; more && left > 0; {
				page, err := audit.List(ctx, d.store.Set.Rows, audit.Filter{}, place, left)
				if err != nil {
					return err
				}
				for _, r := range page.Records {
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.At, r.Entry.Actor, r.Entry.Verb, r.Entry.Outcome, subject(r.Entry.Subject), r.Entry.Reason, r.Entry.Detail)
				}
				left -= len(page.Records)
				more, place = page.More, page.Next
			}
			return w.Flush()
		})
	}}
	d.flags(c)
	c.Flags().IntVar(&limit, "limit", 100, "how many")
	return c
}

func subject(s audit.Subject) string {
	var parts []string
	if !s.Item.IsZero() {
		parts = append(parts, "item "+s.Item.String())
	}
	if !s.User.IsZero() {
		parts = append(parts, "user "+s.User.String())
	}
	if s.Run != 0 {
		parts = append(parts, fmt.Sprintf("run %016x", uint64(s.Run)))
	}
	return strings.Join(parts, ", ")
}

func newAuditVerify() *cobra.Command {
	var d desk
	var against string
	var heads bool
	c := &cobra.Command{
		Use: "verify", Short: "Find records that were changed, moved or taken away", Args: cobra.NoArgs,
		Long: "Follows the hash chains of the audit log. What no chain can show is a folder put back whole to an earlier day: keep the\n" +
			"heads elsewhere (--heads) and verify against them. It exits with 1 if anything is wrong.",
		RunE: func(c *cobra.Command, _ []string) error {
			kept, err := readHeads(against)
			if err != nil {
				return err
			}
			return d.at(c.Context(), func(ctx context.Context, _ mayfly.Instant) error {
				report, err := audit.VerifyAgainst(ctx, d.store.Set.Rows, kept, func(audit.Record) error { return nil })
				if err != nil {
					return err
				}
				return tellAudit(c, report, heads)
			})
		},
	}
	d.flags(c)
	c.Flags().BoolVar(&heads, "heads", false, "print the heads only, one a line")
	c.Flags().StringVar(&against, "against", "", "a file with heads that were printed earlier")
	return c
}

func readHeads(file string) (kept []audit.Head, err error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, usage(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		head, err := audit.ParseHead(strings.TrimSpace(line))
		if err != nil {
			return nil, usage(err)
		}
		kept = append(kept, head)
	}
	if len(kept) == 0 {
		return nil, usage(errors.New(file + " has no heads in it"))
	}
	return kept, nil
}

func tellAudit(c *cobra.Command, r audit.Report, heads bool) error {
	out := c.OutOrStdout()
	if heads {
		for _, h := range r.Heads {
			fmt.Fprintln(out, h)
		}
	} else {
		fmt.Fprintf(out, "%s records in %d chains are whole; %d heads compared\n", grouped(int64(r.Records)), r.Chains, r.Anchors)
	}
	for _, f := range r.Findings {
		fmt.Fprintln(c.ErrOrStderr(), f)
	}
	if !r.Sound() {
		fmt.Fprintf(c.ErrOrStderr(), "%d findings: the record is not sound\n", len(r.Findings)+r.More)
		return errWrong
	}
	return nil
}
