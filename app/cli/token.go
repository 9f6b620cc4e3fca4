package cli

import (
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/node"
)

// scopes of tokens, as C1 has them.
func scopes() []string { return []string{"user", "service", "moderator", "admin"} }

func newToken() *cobra.Command {
	t := &tokenVerb{}
	c := &cobra.Command{
		Use: "token", Short: "Print an access token, signed with the key of a data folder",
		Long: "Prints an access token that a server on the same data folder takes. No server needs to be running, but one must have run:\n" +
			"it makes the key at its first start. Whoever can read the key can be anybody.\n\n" +
			"Scopes:\n" +
			"  user       acts as the user\n" +
			"  service    acts for the user named in Mayfly-User, gets tokens for users, says who follows whom\n" +
			"  moderator  sees everything, holds and restores\n" +
			"  admin      explains, erases accounts, looks after dead letters; sees no content",
		Example: "  mayfly token --user ana\n  mayfly token --scope service --for 720h\n" +
			"  curl -H \"Authorization: Bearer $(mayfly token --user ana)\" http://127.0.0.1:7420/v1/me/preflight",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return t.run(c) },
	}
	t.settings.flags(c)
	c.Flags().StringVar(&t.user, "user", "", "whom it is for: a name, or a UUID")
	c.Flags().StringVar(&t.scope, "scope", "user", "user, service, moderator or admin")
	c.Flags().DurationVar(&t.lasts, "for", 12*time.Hour, "how long it lasts")
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
		return usage(mayfly.Errorf(mayfly.Invalid, "--scope %s is none", t.scope).WithHint("choose user, service, moderator or admin"))
	}
	if t.scope == "user" && t.user == "" {
		return usage(mayfly.Errorf(mayfly.Invalid, "--user is missing").WithHint("say whom the token is for, such as --user ana"))
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

// completeWords lets the shell complete a flag whose values are known.
func completeWords(c *cobra.Command, flag string, words ...string) {
	if err := c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag stands one line above
	}
}
