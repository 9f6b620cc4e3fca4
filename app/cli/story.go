package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
)

func newStory() *cobra.Command {
	c := &cobra.Command{
		Use: "story", Short: "Publish, open and manage stories on a server",
		Long: "Sends requests to a running server (mayfly serve). Authenticate with --token or MAYFLY_TOKEN, or with --user and the key of\n" +
			"the server's data folder. Without a token you can read what is public.",
		Example: "  mayfly story picture photo.jpg\n  mayfly story publish photo.jpg --user ana --audience everyone\n" +
			"  mayfly story ring ~ana\n  mayfly story archive --user ana",
	}
	c.AddCommand(newStoryPublish(), newStoryOpen(), newStoryRing(), newStoryArchive(), newStoryReshare(), newStoryDelete(), newStoryPicture())
	return c
}

// audiences returns the audiences of a story.
func audiences() []string { return []string{"everyone", "followers", "close_friends"} }

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

// userText returns a user as the API accepts it. A name without ~ is a subject of the
// home issuer.
func userText(text string) string {
	if _, err := mayfly.ParseUserID(text); err == nil || strings.HasPrefix(text, "~") {
		return text
	}
	return "~" + text
}
