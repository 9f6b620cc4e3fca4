package cli

import (
	"context"
	"fmt"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly/app/admin"
)

func newFeed() *cobra.Command {
	c := &cobra.Command{
		Use: "feed", Short: "Check the follow edges and counts of a server, and have those of another product move in",
		Example: "  mayfly feed verify\n  mayfly feed import --edges edges.csv --posts posts.jsonl --reason 'moving in'",
	}
	c.AddCommand(newFeedVerify(), newFeedImport())
	return c
}

// maxDifferences is how many differences are printed.
const maxDifferences = 20

func newFeedVerify() *cobra.Command {
	a := adminFlags{long: true}
	c := &cobra.Command{
		Use: "verify", Short: "Compare follow edges with their other direction, and all counts with their rows", Args: cobra.NoArgs,
		Long: "Reads every follow edge, follower, like, repost and reply, and compares them with each other and with the counts that\n" +
			"profiles and posts show. It changes nothing. Counts follow a change within seconds, so that on a server in use a\n" +
			"difference may be a change under way: run it again. The exit code is 1 if there is a difference.\n\n" + adminHelp,
		Example: "  mayfly feed verify\n  mayfly feed verify --admin http://node-1:7421 --token \"$TOKEN\"",
		RunE: func(c *cobra.Command, _ []string) error {
			return a.do(c, nil, func(ctx context.Context, api admin.API) error {
				users, posts, found := 0, 0, 0
				for part, err := range api.CheckFeed(ctx) {
					if err != nil {
						return err
					}
					users, posts = users+part.Users, posts+part.Posts
					for _, line := range part.Differences {
						if found++; found <= maxDifferences {
							fmt.Fprintln(c.OutOrStdout(), line)
						}
					}
				}
				if found > maxDifferences {
					fmt.Fprintf(c.OutOrStdout(), "and %s more\n", humanize.Comma(int64(found-maxDifferences)))
				}
				fmt.Fprintf(c.OutOrStdout(), "%s users and %s posts checked: %s differences\n", humanize.Comma(int64(users)), humanize.Comma(int64(posts)), humanize.Comma(int64(found)))
				if found > 0 {
					return errWrong
				}
				return nil
			})
		},
	}
	a.flags(c)
	return c
}
