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

// Default addresses of a server.
const (
	defaultServer = "http://127.0.0.1:7420"
	defaultAdmin  = "http://127.0.0.1:7421"
)

// remote holds the flags by which a verb reaches a server as a user.
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
	c.Flags().StringVar(&r.user, "user", "", "act as this user, with a token made with the data folder's key")
	c.Flags().BoolVar(&r.json, "json", false, "print JSON")
}

// client returns a client of the server.
func (r *remote) client() (*client.Client, error) {
	token, err := r.bearer("user")
	if err != nil {
		return nil, err
	}
	return client.New(r.server, client.Options{Token: token, Agent: "mayfly/" + server.Version})
}

// bearer returns the token that was given, or one of scope made for --user, or "".
func (r *remote) bearer(scope string) (string, error) {
	switch {
	case r.token != "" && r.user != "":
		return "", usage(mayfly.Errorf(mayfly.Invalid, "--token and --user exclude each other").WithHint("the token names its user"))
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

// failed wraps the error of a call and adds a hint if no user was named.
func (r *remote) failed(err error, doing string, args ...any) error {
	err = fmt.Errorf(doing+": %w", append(args, err)...)
	if errors.Is(err, mayfly.Unauthenticated) && r.token == "" && r.user == "" && os.Getenv("MAYFLY_TOKEN") == "" {
		return mayfly.Wrap(mayfly.Unauthenticated, err, "pass --user NAME, with --data for the server's data folder, or --token with the output of mayfly token")
	}
	return err
}

func fromEnv(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

// writeJSON prints a value as indented JSON.
func writeJSON(out io.Writer, value any) error {
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(value)
}
