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
	"github.com/mayflyhq/mayfly/app/admin"
	"github.com/mayflyhq/mayfly/engine/audit"
)

func newAudit() *cobra.Command {
	c := &cobra.Command{
		Use: "audit", Short: "List and verify the audit log of operators and support",
		Long:    "Lists and verifies the audit log: what operators and support changed, when and why.\n\n" + adminHelp,
		Example: "  mayfly audit list\n  mayfly audit verify\n  mayfly audit verify --heads > heads.txt     store this file elsewhere\n  mayfly audit verify --against heads.txt",
	}
	c.AddCommand(newAuditList(), newAuditVerify())
	return c
}

func newAuditList() *cobra.Command {
	var a adminFlags
	var limit int
	c := &cobra.Command{Use: "list", Short: "List the records, newest first", Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error {
		return a.do(c, nil, func(ctx context.Context, api admin.API) error {
			w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "AT\tWHO\tISSUER\tWHAT\tOUTCOME\tSUBJECT\tREASON\tDETAIL")
			left := limit
			for r, err := range api.Audit(ctx) {
				if err != nil {
					return errors.Join(err, w.Flush())
				}
				if left--; left < 0 {
					break
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.At, who(r), r.Issuer, r.Verb, r.Outcome, subject(r), r.Reason, r.Detail)
			}
			return w.Flush()
		})
	}}
	a.flags(c)
	c.Flags().IntVar(&limit, "limit", 100, "maximum number of records")
	return c
}

func who(r wire.AuditRecord) string {
	if r.For != nil {
		return r.Actor + " for " + r.For.String()
	}
	return r.Actor
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
	var a adminFlags
	var against string
	var heads bool
	c := &cobra.Command{
		Use: "verify", Short: "Find records that were changed, moved or removed", Args: cobra.NoArgs,
		Long: "Checks the hash chains of the audit log. The chains cannot show that a whole folder was replaced by an older copy: store\n" +
			"the heads elsewhere (--heads) and compare with them later (--against). The exit code is 1 if anything is wrong.",
		RunE: func(c *cobra.Command, _ []string) error {
			kept, err := readHeads(against)
			if err != nil {
				return err
			}
			return a.do(c, nil, func(ctx context.Context, api admin.API) error {
				report, err := api.VerifyAudit(ctx, kept)
				if err != nil {
					return err
				}
				return printAudit(c, report, heads)
			})
		},
	}
	a.flags(c)
	c.Flags().BoolVar(&heads, "heads", false, "print only the heads, one per line")
	c.Flags().StringVar(&against, "against", "", "file with heads that were printed earlier")
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
		return nil, usage(errors.New("no heads in " + file))
	}
	return kept, nil
}

func printAudit(c *cobra.Command, r wire.AuditReport, heads bool) error {
	out := c.OutOrStdout()
	if heads {
		for _, h := range r.Heads {
			fmt.Fprintln(out, h)
		}
	} else {
		fmt.Fprintf(out, "%s records in %d chains checked; %d heads compared\n", humanize.Comma(int64(r.Records)), r.Chains, r.Compared)
	}
	for _, f := range r.Findings {
		fmt.Fprintln(c.ErrOrStderr(), f)
	}
	if !r.Sound {
		fmt.Fprintf(c.ErrOrStderr(), "%d findings: the audit log is not intact\n", len(r.Findings)+r.More)
		return errWrong
	}
	return nil
}
