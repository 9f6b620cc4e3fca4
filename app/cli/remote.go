package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/app/server"
	"github.com/mayflyhq/mayfly/client"
)

// Where a server listens unless it is told otherwise.
const (
	defaultServer = "http://127.0.0.1:7420"
	defaultAdmin  = "http://127.0.0.1:7421"
)

// remote is how a verb reaches a server, and as whom.
type remote struct {
	settings settings
	server   string
	token    string
	user     string
	json     bool
}

func (r *remote) flags(c *cobra.Command) {
	r.settings.flags(c)
	c.Flags().StringVar(&r.server, "server", fromEnv("MAYFLY_SERVER", defaultServer), "URL of the server (MAYFLY_SERVER)")
	c.Flags().StringVar(&r.token, "token", "", "access token (MAYFLY_TOKEN)")
	c.Flags().StringVar(&r.user, "user", "", "act as this user, with the key of the data folder instead of a token")
	c.Flags().BoolVar(&r.json, "json", false, "print what the server answers")
}

// client is one of the server. A token that is minted on the spot is good for
// this call and little more.
func (r *remote) client() (*client.Client, error) {
	token, err := r.bearer("user")
	if err != nil {
		return nil, err
	}
	return client.New(r.server, client.Options{Token: token, Agent: "mayfly/" + server.Version})
}

// bearer is the token that was given, or one of scope for the user that was named; "" for nobody.
func (r *remote) bearer(scope string) (string, error) {
	switch {
	case r.token != "" && r.user != "":
		return "", usage(mayfly.Errorf(mayfly.Invalid, "--token and --user at once").WithHint("a token says whose it is"))
	case r.token != "":
		return r.token, nil
	case r.user == "" && scope == "user":
		return os.Getenv("MAYFLY_TOKEN"), nil
	case r.user == "" && os.Getenv("MAYFLY_TOKEN") != "":
		return os.Getenv("MAYFLY_TOKEN"), nil
	}
	cfg, err := r.settings.load(nil)
	if err != nil {
		return "", err
	}
	token, err := node.MintToken(cfg, node.TokenRequest{User: r.user, Scope: scope, Lasts: 15 * time.Minute}, mayfly.InstantOf(time.Now()))
	return string(token), err
}

// failed is err of a call, with what can be done about it here.
func (r *remote) failed(err error, doing string, args ...any) error {
	err = fmt.Errorf(doing+": %w", append(args, err)...)
	if errors.Is(err, mayfly.Unauthenticated) && r.token == "" && r.user == "" && os.Getenv("MAYFLY_TOKEN") == "" {
		return mayfly.Wrap(mayfly.Unauthenticated, err, "say who you are: --user NAME, with --data for the server's folder; or --token, which mayfly token makes")
	}
	return err
}

func fromEnv(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

// writeJSON prints a value as the server sent it.
func writeJSON(out io.Writer, value any) error {
	in := json.NewEncoder(out)
	in.SetIndent("", "  ")
	in.SetEscapeHTML(false)
	return in.Encode(value)
}
