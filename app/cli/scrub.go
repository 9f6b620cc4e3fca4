package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/app/admin"
)

func newScrub() *cobra.Command {
	s := scrub{}
	c := &cobra.Command{
		Use:   "scrub",
		Short: "Read every archived medium again and compare its hash",
		Long: "Reads all archived media of a data folder and lists those that differ from what was uploaded. A running server does this\n" +
			"slowly all the time: if one uses the folder, this prints what it has found since its start. Nothing is erased. If an item is\n" +
			"still being archived and its hot copy is intact, a server copies it again.\n\n" +
			"The exit code is 1 if a copy does not match.",
		Example: "  mayfly scrub --data ./mayfly-data\n  mayfly scrub --rate 64        at most 64 MiB per second",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return s.run(c) },
	}
	s.admin.flags(c)
	c.Flags().Int64Var(&s.rate, "rate", 1024, "maximum MiB per second, on a folder without a server")
	return c
}

type scrub struct {
	admin adminFlags
	rate  int64
}

func (s *scrub) run(c *cobra.Command) error {
	if s.rate < 1 || s.rate > 1<<20 {
		return usage(fmt.Errorf("invalid --rate %d: write MiB per second, 1 or more", s.rate))
	}
	return s.admin.do(c, nil, func(ctx context.Context, api admin.API) error {
		if api.Folder == nil && c.Flags().Changed("rate") {
			return usage(errors.New("--rate has no effect on a server; set ends.scrub_bytes"))
		}
		find := api.Scrub
		if api.Folder != nil {
			find = func(ctx context.Context) (wire.Scrub, error) { return api.Folder.Scrub(ctx, s.rate) }
		}
		found, err := find(ctx)
		if err == nil || found.Items > 0 {
			printScrub(c.OutOrStdout(), found)
		}
		switch {
		case err != nil:
			return err
		case found.Mismatch > 0:
			return errWrong
		}
		return nil
	})
}

func printScrub(out io.Writer, r wire.Scrub) {
	if r.At == nil {
		fmt.Fprintln(out, "The server has not started to scrub yet.")
		return
	}
	fmt.Fprintf(out, "%s items with %s cold media, %s bytes read, %s do not match\n", humanize.Comma(r.Items), humanize.Comma(r.Objects), humanize.Comma(r.Bytes), humanize.Comma(r.Mismatch))
	for _, bad := range r.Bad {
		fmt.Fprintf(out, "  %s of %s: %s\n", bad.Key, bad.Item, bad.Why)
	}
	if over := r.Mismatch - int64(len(r.Bad)); over > 0 {
		fmt.Fprintf(out, "  and %s more\n", humanize.Comma(over))
	}
	if r.Again > 0 {
		fmt.Fprintf(out, "%s items will be copied again from hot storage\n", humanize.Comma(r.Again))
	}
}
