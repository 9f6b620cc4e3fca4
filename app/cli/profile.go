package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/client"
)

func newProfile() *cobra.Command {
	r := &remote{}
	var handle, name, bio, avatar string
	var private bool
	c := &cobra.Command{
		Use: "profile [USER]", Short: "Print a profile, or change your own",
		Long: "Prints the profile of a user, by default your own. With flags it changes your own: an empty text takes a field out. An avatar\n" +
			"is the path of an image, which the server makes smaller, or an https URL.",
		Example: "  mayfly profile ana --user ben\n  mayfly profile --handle ana --name Ana --avatar ana.jpg --user ana\n  mayfly profile --private --user ana",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			api, err := r.client()
			if err != nil {
				return err
			}
			defer api.Close()
			var change wire.ProfileChange
			changes := false
			for flag, to := range map[string]**string{"handle": &change.Handle, "name": &change.Name, "bio": &change.Bio, "avatar": &change.Avatar} {
				if f := c.Flags().Lookup(flag); f.Changed {
					text := f.Value.String()
					*to, changes = &text, true
				}
			}
			if c.Flags().Changed("private") {
				change.Private, changes = &private, true
			}
			var p wire.Profile
			switch {
			case changes && len(args) > 0:
				return mayfly.Errorf(mayfly.Invalid, "the profile of %s is not yours to change", args[0]).WithHint("leave USER out to change your own")
			case changes:
				p, err = changeProfile(c, api, change)
			case len(args) > 0:
				p, err = api.Profile(c.Context(), userText(args[0]))
			default:
				p, err = api.MyProfile(c.Context())
			}
			if errors.Is(err, mayfly.NotFound) {
				err = mayfly.Wrap(mayfly.NotFound, err, "check the name or handle")
			}
			switch {
			case err != nil:
				return r.failed(err, "profile")
			case r.json:
				return writeJSON(c.OutOrStdout(), p)
			}
			printProfile(c.OutOrStdout(), p)
			return nil
		},
	}
	c.Flags().StringVar(&handle, "handle", "", "3 to 30 of a-z, 0-9 and _, of one user only")
	c.Flags().StringVar(&name, "name", "", "the display name")
	c.Flags().StringVar(&bio, "bio", "", "a few words about yourself")
	c.Flags().StringVar(&avatar, "avatar", "", "an image, or the https URL of one")
	c.Flags().BoolVar(&private, "private", false, "items for everyone are for followers, whom you accept one by one; --private=false ends that")
	r.flags(c)
	return c
}

// changeProfile changes the caller's profile. An avatar that is no URL is sent, after
// the rest was accepted.
func changeProfile(c *cobra.Command, api *client.Client, change wire.ProfileChange) (wire.Profile, error) {
	if change.Avatar == nil || *change.Avatar == "" || strings.Contains(*change.Avatar, "://") {
		return api.ChangeProfile(c.Context(), change)
	}
	image, err := client.File(*change.Avatar)
	if err != nil {
		return wire.Profile{}, err
	}
	if change.Avatar = nil; change != (wire.ProfileChange{}) {
		if _, err := api.ChangeProfile(c.Context(), change); err != nil {
			return wire.Profile{}, err
		}
	}
	return api.SetAvatar(c.Context(), image)
}

func printProfile(w io.Writer, p wire.Profile) {
	line := func(what, text string) {
		if text != "" {
			fmt.Fprintf(w, "%-10s  %s\n", what, text)
		}
	}
	line("user", p.User.String())
	if p.Handle != "" {
		line("handle", "@"+p.Handle)
	}
	line("name", p.Name)
	line("bio", p.Bio)
	line("avatar", p.Avatar)
	if p.Private {
		line("private", "yes")
	}
	line("following", fmt.Sprint(p.Following))
	line("followers", fmt.Sprint(p.Followers))
}
