package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/app/admin"
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
	c.AddCommand(newTokenDeny())
	return c
}

func newTokenDeny() *cobra.Command {
	var a adminFlags
	var op operation
	var in wire.TokenDenial
	c := &cobra.Command{
		Use: "deny [ID]", Short: "Refuse an access token before its end",
		Long: "Refuses an access token from now on, on every node. It reads the token from standard input, or takes its id (the claim jti)\n" +
			"as an argument. A denied token cannot be allowed again. Refresh tokens end by signing out (POST /v1/token/revoke).\n\n" + adminHelp,
		Example: "  mayfly token deny --reason 'found in a log' < stolen-token\n  mayfly token deny ID --issuer https://shop.example --reason 'case 4711'",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			in.Reason = op.reason
			if len(args) == 1 {
				in.ID = args[0]
			} else if text, err := io.ReadAll(io.LimitReader(c.InOrStdin(), maxTokenText)); err != nil {
				return err
			} else if in.Token = strings.TrimSpace(string(text)); in.Token == "" {
				return usage(mayfly.Errorf(mayfly.Invalid, "there is no token on standard input").WithHint("name its id, or pass the token: mayfly token deny < FILE"))
			}
			return a.do(c, &op, func(ctx context.Context, api admin.API) error {
				if err := api.DenyToken(ctx, in); err != nil {
					return err
				}
				fmt.Fprintln(c.OutOrStdout(), "the token is denied")
				return nil
			})
		},
	}
	a.flags(c)
	op.flags(c)
	c.Flags().StringVar(&in.Issuer, "issuer", "", "issuer of the token with that ID (default the server itself)")
	return c
}

// maxTokenText is more than the longest access token has.
const maxTokenText = 16 << 10

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
