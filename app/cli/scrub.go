package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly/api/wire"
	scrubber "github.com/mayflyhq/mayfly/engine/scrub"
	"github.com/mayflyhq/mayfly/engine/walk"
)

func newScrub() *cobra.Command {
	s := scrub{}
	c := &cobra.Command{
		Use:   "scrub",
		Short: "Read every archived medium again and compare it with what was uploaded",
		Long: "Reads all cold copies of a data folder that no process is using, and names those that are not what was uploaded. A server\n" +
			"does the same all the time, slowly: if one uses the folder, this prints what it has found since its start. It erases nothing.\n" +
			"Where an item's archiving has not finished and its hot copy is whole, the item is put back on its way, and is copied again\n" +
			"when the folder is served.\n\n" +
			"It exits with 1 if a copy does not match.",
		Example: "  mayfly scrub --data ./mayfly-data\n  mayfly scrub --rate 64        at most 64 MiB a second",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return s.run(c) },
	}
	s.admin.flags(c)
	c.Flags().Int64Var(&s.rate, "rate", 1024, "how many MiB are read a second at most, of a folder that nobody uses")
	return c
}

type scrub struct {
	admin admin
	rate  int64
}

func (s *scrub) run(c *cobra.Command) error {
	if s.rate < 1 || s.rate > 1<<20 {
		return usage(fmt.Errorf("--rate %d: write a number of MiB from 1 on", s.rate))
	}
	return s.admin.do(c, nil, func(ctx context.Context, api adminAPI) error {
		if api.folder == nil && c.Flags().Changed("rate") {
			return usage(errors.New("--rate: a server scrubs at its own rate (ends.scrub_bytes)"))
		}
		find := api.Scrub
		if api.folder != nil {
			find = func(ctx context.Context) (wire.Scrub, error) { return api.folder.scrub(ctx, s.rate) }
		}
		found, err := find(ctx)
		if err == nil || found.Items > 0 {
			tellScrubbed(c.OutOrStdout(), found)
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

func tellScrubbed(out io.Writer, r wire.Scrub) {
	if r.At == nil {
		fmt.Fprintln(out, "The server has not begun to scrub yet.")
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
		fmt.Fprintf(out, "%s items will be copied again from hot\n", humanize.Comma(r.Again))
	}
}

// scrub reads every cold copy of the folder, at most mibs MiB a second.
func (f *folder) scrub(ctx context.Context, mibs int64) (wire.Scrub, error) {
	origin, err := walk.Origin(ctx, f.store.Set.Rows, f.now)
	if err != nil {
		return wire.Scrub{}, err
	}
	show, end := f.show("scrub", "minutes of deadlines")
	defer end()
	return f.node.Desk().Scrub(ctx, scrubber.Run{Rows: walk.Span{From: origin, To: f.now}, Now: f.now, BytesPerSecond: mibs << 20, Progress: show})
}
