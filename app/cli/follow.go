package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/client"
)

func newFollow() *cobra.Command {
	r := &remote{}
	c := onUser(r, "follow USER", "Follow a user, and manage follows and requests",
		"Follows a user on a running server (mayfly serve), or asks to if the account is private. USER is a UUID, a name of the home\n"+
			"issuer such as ana or ~ana, or @ and a handle. Authenticate with --token or MAYFLY_TOKEN, or with --user and the key of the\n"+
			"server's data folder.",
		"  mayfly follow ana --user ben\n  mayfly follow stop @ana --user ben\n  mayfly follow requests --user ana\n  mayfly follow accept ben --user ana",
		func(ctx context.Context, api *client.Client, user string) (any, string, error) {
			f, err := api.Follow(ctx, user)
			if f.State == "requested" {
				return f, "The account is private. It shows you more once it accepts (mayfly follow accept).", err
			}
			return f, "You follow " + user + ".", err
		})
	c.AddCommand(
		onUser(&remote{}, "stop USER", "Stop following a user, or take a request back", "", "  mayfly follow stop ana --user ben",
			func(ctx context.Context, api *client.Client, user string) (any, string, error) {
				return nil, "You do not follow " + user + ".", api.Unfollow(ctx, user)
			}),
		onUser(&remote{}, "accept USER", "Accept a user's request to follow you", "", "  mayfly follow accept ben --user ana",
			func(ctx context.Context, api *client.Client, user string) (any, string, error) {
				return nil, user + " follows you.", api.AcceptFollow(ctx, user)
			}),
		onUser(&remote{}, "decline USER", "Decline a user's request to follow you", "The user is not notified. A user who follows you already goes on following you.", "  mayfly follow decline ben --user ana",
			func(ctx context.Context, api *client.Client, user string) (any, string, error) {
				return nil, "The request of " + user + " is declined.", api.DeclineFollow(ctx, user)
			}),
		listUsers("list", "List the users whom you follow", "You follow no user.", (*client.Client).MyFollowing),
		listUsers("requests", "List the users who ask to follow you", "No user asks to follow you.", (*client.Client).FollowRequests),
	)
	return c
}

// onUser returns a verb that does something about a user. do returns what --json prints,
// which may be nil, and what is printed without it.
func onUser(r *remote, use, short, long, example string, do func(ctx context.Context, api *client.Client, user string) (any, string, error)) *cobra.Command {
	c := &cobra.Command{
		Use: use, Short: short, Long: long, Example: example, Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			api, err := r.client()
			if err != nil {
				return err
			}
			defer api.Close()
			out, line, err := do(c.Context(), api, userText(args[0]))
			if errors.Is(err, mayfly.NotFound) {
				err = mayfly.Wrap(mayfly.NotFound, err, "check the name or handle; mayfly follow requests lists who asks to follow you")
			}
			switch {
			case err != nil:
				return r.failed(err, "%s %s", c.Name(), args[0])
			case !r.json:
				_, err = fmt.Fprintln(c.OutOrStdout(), line)
			case out != nil:
				err = writeJSON(c.OutOrStdout(), out)
			}
			return err
		},
	}
	r.flags(c)
	return c
}

func listUsers(use, short, none string, list func(*client.Client, context.Context) iter.Seq2[wire.Profile, error]) *cobra.Command {
	r := &remote{}
	c := &cobra.Command{
		Use: use, Short: short, Example: "  mayfly follow " + use + " --user ana", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			api, err := r.client()
			if err != nil {
				return err
			}
			defer api.Close()
			all := wire.Profiles{Users: []wire.Profile{}}
			for p, err := range list(api, c.Context()) {
				if err != nil {
					return r.failed(err, "%s", strings.ToLower(short))
				}
				all.Users = append(all.Users, p)
			}
			if r.json {
				return writeJSON(c.OutOrStdout(), all)
			}
			for _, p := range all.Users {
				line := p.User.String()
				if p.Handle != "" {
					line += "  @" + p.Handle
				}
				if p.Name != "" {
					line += fmt.Sprintf("  %q", p.Name)
				}
				fmt.Fprintln(c.OutOrStdout(), line)
			}
			if len(all.Users) == 0 {
				fmt.Fprintln(c.OutOrStdout(), none)
			}
			return nil
		},
	}
	r.flags(c)
	return c
}

func newTray() *cobra.Command {
	r := &remote{}
	c := &cobra.Command{
		Use: "tray", Short: "List who of the users whom you follow has live stories, unseen first",
		Long: "Lists the users whom you follow who have live stories that you can see: those with something unseen first, then by their\n" +
			"newest story. mayfly story ring USER lists the stories of one of them.",
		Example: "  mayfly tray --user ben\n  mayfly tray --user ben --json",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			api, err := r.client()
			if err != nil {
				return err
			}
			defer api.Close()
			tray, err := api.Tray(c.Context())
			if err != nil {
				return r.failed(err, "tray")
			}
			if r.json {
				return writeJSON(c.OutOrStdout(), tray)
			}
			for _, s := range tray.Slots {
				state := "unseen"
				if s.Seen != nil && *s.Seen == s.Newest {
					state = "seen"
				}
				fmt.Fprintf(c.OutOrStdout(), "%s  %-6s  newest %s  until %s\n", s.User, state, s.Newest, s.EndsAt)
			}
			if len(tray.Slots) == 0 {
				fmt.Fprintln(c.OutOrStdout(), "No user whom you follow has a live story that you can see.")
			}
			if tray.Partial {
				fmt.Fprintln(c.ErrOrStderr(), "You follow more than 2000 users: these are of those whom you followed last.")
			}
			return nil
		},
	}
	r.flags(c)
	return c
}
