package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/client"
)

func newStoryOpen() *cobra.Command {
	r, save := &remote{}, ""
	c := &cobra.Command{
		Use: "open ID", Short: "Open a story and optionally save its media",
		Long:    "Opens a story. With --save it downloads the media and verifies their hashes.",
		Example: "  mayfly story open ID --user ben\n  mayfly story open ID --user ana --save ./photos",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return r.withID(args, func(api *client.Client, id mayfly.ID) error {
				story, err := api.Story(c.Context(), id)
				if err != nil {
					return r.failed(err, "open %s", id)
				}
				if err := r.show(c, story); err != nil || save == "" {
					return err
				}
				return api.Save(c.Context(), story, save, func(path string) { fmt.Fprintf(c.ErrOrStderr(), "saved %s\n", path) })
			})
		},
	}
	r.flags(c)
	c.Flags().StringVar(&save, "save", "", "folder to save the media in")
	return c
}

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

// show prints a story.
func (r *remote) show(c *cobra.Command, s wire.Story) error {
	if r.json {
		return writeJSON(c.OutOrStdout(), s)
	}
	printStory(c.OutOrStdout(), s)
	return nil
}

// printStory prints a story as text.
func printStory(out io.Writer, s wire.Story) {
	until := "until " + s.ExpiresAt.String()
	if s.ServesUntil != nil {
		until = "again until " + s.ServesUntil.String()
	}
	fmt.Fprintf(out, "%s\n  by %s, for %s, born %s, serves %s\n", s.ID, s.Author, strings.ReplaceAll(s.Audience, "_", " "), s.BornAt, until)
	if s.State != "" {
		fmt.Fprintf(out, "  %s, %s\n", s.State, s.Tier)
	}
	if s.Caption != "" {
		fmt.Fprintf(out, "  %q\n", s.Caption)
	}
	for n, m := range s.Media {
		fmt.Fprintf(out, "  medium %d: %s\n", n, mediumLine(m))
	}
}

func mediumLine(m wire.Medium) string {
	line := fmt.Sprintf("%s, %s bytes", m.Type, humanize.Comma(m.Size))
	if m.Width > 0 {
		line += fmt.Sprintf(", %d × %d", m.Width, m.Height)
	}
	return line
}

// shortLine returns the line of a story in a list.
func shortLine(s wire.Story) string {
	caption := s.Caption
	if runes := []rune(caption); len(runes) > 40 {
		caption = string(runes[:40]) + "…"
	}
	line := fmt.Sprintf("%s  born %s  until %s  %d media", s.ID, s.BornAt, s.ExpiresAt, len(s.Media))
	if s.Tier != "" {
		line += "  " + s.Tier
	}
	if s.Seen != nil && *s.Seen {
		line += "  seen"
	}
	if caption != "" {
		line += fmt.Sprintf("  %q", caption)
	}
	return line
}

// userText returns a user as the API accepts it. A name without ~ or @ is a subject of
// the home issuer.
func userText(text string) string {
	if _, err := mayfly.ParseUserID(text); err == nil || strings.HasPrefix(text, "~") || strings.HasPrefix(text, "@") {
		return text
	}
	return "~" + text
}
