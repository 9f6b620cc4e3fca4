package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/client"
)

func newStoryRing() *cobra.Command {
	r := &remote{}
	c := &cobra.Command{
		Use: "ring USER", Short: "List a user's live stories that you can see, oldest first",
		Example: "  mayfly story ring ~ana\n  mayfly story ring ana --user ben",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			api, err := r.client()
			if err != nil {
				return err
			}
			defer api.Close()
			ring, err := api.Ring(c.Context(), userText(args[0]))
			if err != nil {
				return r.failed(err, "ring of %s", args[0])
			}
			if r.json {
				return writeJSON(c.OutOrStdout(), ring)
			}
			for _, s := range ring.Stories {
				fmt.Fprintln(c.OutOrStdout(), shortLine(s))
			}
			if len(ring.Stories) == 0 {
				fmt.Fprintln(c.OutOrStdout(), "There is no live story that you can see.")
			}
			return nil
		},
	}
	r.flags(c)
	return c
}

func newStoryArchive() *cobra.Command {
	a := &storyArchive{}
	c := &cobra.Command{
		Use: "archive", Short: "List your expired stories, newest first",
		Example: "  mayfly story archive --user ana\n  mayfly story archive --user ana --day 2026-01-31\n  mayfly story archive --user ana --from 2026-01-01 --to 2026-02-01",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return a.run(c) },
	}
	a.remote.flags(c)
	c.Flags().StringVar(&a.day, "day", "", "only stories published on this day (UTC), such as 2026-01-31")
	c.Flags().StringVar(&a.from, "from", "", "only stories published at or after this day or instant")
	c.Flags().StringVar(&a.to, "to", "", "only stories published before this day or instant")
	c.Flags().IntVar(&a.limit, "limit", 100, "maximum number; 0 means all")
	return c
}

type storyArchive struct {
	remote        remote
	day, from, to string
	limit         int
}

func (a *storyArchive) run(c *cobra.Command) error {
	period, err := a.period()
	if err != nil {
		return err
	}
	api, err := a.remote.client()
	if err != nil {
		return err
	}
	defer api.Close()
	shown := 0
	for story, err := range api.Archive(c.Context(), period) {
		if err != nil {
			return a.remote.failed(err, "archive")
		}
		if a.limit > 0 && shown == a.limit {
			fmt.Fprintf(c.ErrOrStderr(), "There are more; --limit 0 lists all.\n")
			return nil
		}
		shown++
		if a.remote.json {
			err = writeJSON(c.OutOrStdout(), story)
		} else {
			_, err = fmt.Fprintln(c.OutOrStdout(), shortLine(story))
		}
		if err != nil {
			return err
		}
	}
	if shown == 0 && !a.remote.json {
		fmt.Fprintln(c.OutOrStdout(), "There are no archived stories.")
	}
	return nil
}

func (a *storyArchive) period() (client.Period, error) {
	p := client.Period{Day: a.day}
	if a.day != "" && (a.from != "" || a.to != "") {
		return p, usage(mayfly.Errorf(mayfly.Invalid, "--day excludes --from and --to").WithHint("pass one or the other"))
	}
	if a.day != "" {
		if _, err := time.Parse(time.DateOnly, a.day); err != nil {
			return p, usage(mayfly.Errorf(mayfly.Invalid, "invalid --day %s", a.day).WithHint("write a day such as 2026-01-31"))
		}
	}
	for _, one := range []struct {
		flag, text string
		into       *mayfly.Instant
	}{{"--from", a.from, &p.From}, {"--to", a.to, &p.To}} {
		at, err := instantOf(one.text)
		if err != nil {
			return p, usage(mayfly.Errorf(mayfly.Invalid, "invalid %s %s", one.flag, one.text).WithHint("write a day such as 2026-01-31, or an instant such as 2026-01-31T18:00:00Z"))
		}
		*one.into = at
	}
	return p, nil
}

// instantOf parses a day (UTC) or an instant; "" is the zero instant.
func instantOf(text string) (mayfly.Instant, error) {
	if day, err := time.Parse(time.DateOnly, text); err == nil {
		return mayfly.InstantOf(day), nil
	}
	var at mayfly.Instant
	err := at.UnmarshalText([]byte(text))
	return at, err
}
