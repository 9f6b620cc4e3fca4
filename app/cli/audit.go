package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/engine/audit"
)

func newAudit() *cobra.Command {
	c := &cobra.Command{
		Use: "audit", Short: "Read and verify the record of what support and operators did",
		Long:    "Reads and verifies the record of what support and operators did.\n\n" + adminHelp,
		Example: "  mayfly audit list\n  mayfly audit verify\n  mayfly audit verify --heads > heads.txt     keep them elsewhere\n  mayfly audit verify --against heads.txt",
	}
	c.AddCommand(newAuditList(), newAuditVerify())
	return c
}

func newAuditList() *cobra.Command {
	var a admin
	var limit int
	c := &cobra.Command{Use: "list", Short: "List the records, newest first", Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error {
		return a.do(c, nil, func(ctx context.Context, api adminAPI) error {
			w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "AT\tWHO\tWHAT\tOUTCOME\tSUBJECT\tREASON\tDETAIL")
			left := limit
			for r, err := range api.Audit(ctx) {
				if err != nil {
					return errors.Join(err, w.Flush())
				}
				if left--; left < 0 {
					break
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.At, r.Actor, r.Verb, r.Outcome, subject(r), r.Reason, r.Detail)
			}
			return w.Flush()
		})
	}}
	a.flags(c)
	c.Flags().IntVar(&limit, "limit", 100, "how many")
	return c
}

func subject(r wire.AuditRecord) string {
	var parts []string
	if r.Item != nil {
		parts = append(parts, "item "+r.Item.String())
	}
	if r.User != nil {
		parts = append(parts, "user "+r.User.String())
	}
	if r.Run != "" {
		parts = append(parts, "run "+r.Run)
	}
	return strings.Join(parts, ", ")
}

func newAuditVerify() *cobra.Command {
	var a admin
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
			return a.do(c, nil, func(ctx context.Context, api adminAPI) error {
				report, err := api.VerifyAudit(ctx, kept)
				if err != nil {
					return err
				}
				return tellAudit(c, report, heads)
			})
		},
	}
	a.flags(c)
	c.Flags().BoolVar(&heads, "heads", false, "print the heads only, one a line")
	c.Flags().StringVar(&against, "against", "", "a file with heads that were printed earlier")
	return c
}

func readHeads(file string) (kept []string, err error) {
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
		kept = append(kept, head.String())
	}
	if len(kept) == 0 {
		return nil, usage(errors.New(file + " has no heads in it"))
	}
	return kept, nil
}

func tellAudit(c *cobra.Command, r wire.AuditReport, heads bool) error {
	out := c.OutOrStdout()
	if heads {
		for _, h := range r.Heads {
			fmt.Fprintln(out, h)
		}
	} else {
		fmt.Fprintf(out, "%s records in %d chains are whole; %d heads compared\n", humanize.Comma(int64(r.Records)), r.Chains, r.Compared)
	}
	for _, f := range r.Findings {
		fmt.Fprintln(c.ErrOrStderr(), f)
	}
	if !r.Sound {
		fmt.Fprintf(c.ErrOrStderr(), "%d findings: the record is not sound\n", len(r.Findings)+r.More)
		return errWrong
	}
	return nil
}
