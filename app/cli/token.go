package cli

import (
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/node"
)

// scopes returns the scopes of tokens (C1).
func scopes() []string { return []string{"user", "service", "moderator", "admin"} }

func newToken() *cobra.Command {
	t := &tokenVerb{}
	c := &cobra.Command{
		Use: "token", Short: "Print an access token signed with the key of a data folder",
		Long: "Prints an access token that a server with the same data folder accepts. The server creates the key at its first start; it\n" +
			"need not be running. Anyone who can read the key can act as any user.\n\n" +
			"Scopes:\n" +
			"  user       acts as the user\n" +
			"  service    acts for the user named in Mayfly-User, gets tokens for users, sets who follows whom\n" +
			"  moderator  sees all content, holds and restores items\n" +
			"  admin      explains, erases accounts, manages dead letters; sees no content",
		Example: "  mayfly token --user ana\n  mayfly token --scope service --for 720h\n" +
			"  curl -H \"Authorization: Bearer $(mayfly token --user ana)\" http://127.0.0.1:7420/v1/me/preflight",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return t.run(c) },
	}
	t.settings.flags(c)
	c.Flags().StringVar(&t.user, "user", "", "the user: a name or a UUID")
	c.Flags().StringVar(&t.scope, "scope", "user", "user, service, moderator or admin")
	c.Flags().DurationVar(&t.lasts, "for", 12*time.Hour, "lifetime of the token")
	completeWords(c, "scope", scopes()...)
	return c
}

type tokenVerb struct {
	settings    settings
	user, scope string
	lasts       time.Duration
}

func (t *tokenVerb) run(c *cobra.Command) error {
	if !slices.Contains(scopes(), t.scope) {
		return usage(mayfly.Errorf(mayfly.Invalid, "invalid --scope %s", t.scope).WithHint("choose user, service, moderator or admin"))
	}
	if t.scope == "user" && t.user == "" {
		return usage(mayfly.Errorf(mayfly.Invalid, "--user is missing").WithHint("name the user of the token, such as --user ana"))
	}
	cfg, err := t.settings.load(nil)
	if err != nil {
		return err
	}
	token, err := node.MintToken(cfg, node.TokenRequest{User: t.user, Scope: t.scope, Lasts: t.lasts}, mayfly.InstantOf(time.Now()))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(c.OutOrStdout(), string(token))
	return err
}
