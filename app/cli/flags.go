package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/admin"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/app/server"
	"github.com/mayflyhq/mayfly/client"
)

// settings holds the flags that select the configuration of a verb. Flags override
// the environment, which overrides the file (O1).
type settings struct {
	file    string
	data    string
	profile string
	set     []string
}

func (s *settings) flags(c *cobra.Command) {
	c.Flags().StringVar(&s.file, "config", "", "configuration file (default ./"+config.DefaultFile+", if it exists)")
	c.Flags().StringVar(&s.data, "data", "", "data folder (default "+config.DefaultData+")")
}

// allFlags adds --profile and --set, which sets any key.
func (s *settings) allFlags(c *cobra.Command) {
	s.flags(c)
	c.Flags().StringVar(&s.profile, "profile", "", "embedded or cluster (default embedded)")
	completeWords(c, "profile", config.Embedded, config.Cluster)
	c.Flags().StringArrayVar(&s.set, "set", nil, "set one key, such as --set walk.interval=2s; mayfly config describe prints all keys")
}

// load loads the configuration; more holds the keys that other flags set.
func (s *settings) load(more map[string]string) (config.Config, error) {
	from, err := s.sources(more)
	if err != nil {
		return config.Config{}, err
	}
	return config.Load(from)
}

// sources returns where the configuration comes from.
func (s *settings) sources(more map[string]string) (config.Sources, error) {
	flags := map[string]string{}
	for _, one := range s.set {
		key, value, ok := strings.Cut(one, "=")
		if !ok {
			return config.Sources{}, usage(mayfly.Errorf(mayfly.Invalid, "invalid --set %s", one).WithHint("write --set key=value"))
		}
		flags[key] = value
	}
	for key, value := range more {
		if value != "" {
			flags[key] = value
		}
	}
	for key, value := range map[string]string{"data": s.data, "profile": s.profile} {
		if value != "" {
			flags[key] = value
		}
	}
	return config.Sources{File: s.file, Environ: os.Environ(), Flags: flags}, nil
}

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

// adminHelp is the part of the help that all admin verbs share.
const adminHelp = "It works on the data folder, or through the server that uses the folder; --admin names another server. Changes are\n" +
	"recorded in the audit log."

// adminFlags holds the flags by which a verb reaches the admin API.
type adminFlags struct {
	settings settings
	url      string
	token    string
	long     bool // the verb may take hours
}

func (a *adminFlags) flags(c *cobra.Command) {
	a.settings.flags(c)
	c.Flags().StringVar(&a.url, "admin", "", "URL of a server's admin API (default: that of the server that uses the data folder, if one does; MAYFLY_ADMIN without --data)")
	c.Flags().StringVar(&a.token, "token", "", "access token with the scope admin (default MAYFLY_TOKEN, or one made with the data folder's key)")
}

// operation is who changes something and why, for the audit log.
type operation struct{ by, reason string }

func (o *operation) flags(c *cobra.Command) {
	c.Flags().StringVar(&o.by, "by", os.Getenv("USER"), "who does it, for the audit log")
	c.Flags().StringVar(&o.reason, "reason", "", "why, for the audit log (required)")
}

// do calls work with the admin API. op is nil for a verb that changes nothing.
func (a *adminFlags) do(c *cobra.Command, op *operation, work func(ctx context.Context, api admin.API) error) error {
	o, err := a.options(c, op)
	if err != nil {
		return err
	}
	return admin.Do(c.Context(), o, work)
}

// options loads the configuration and refuses an operation without a reason.
func (a *adminFlags) options(c *cobra.Command, op *operation) (o admin.Options, err error) {
	o = admin.Options{URL: a.url, Token: a.token, Changes: op != nil, Long: a.long, Progress: c.ErrOrStderr()}
	if o.Config, err = a.settings.load(nil); err != nil {
		return o, err
	}
	named := op != nil && c.Flags().Changed("by")
	switch {
	case op == nil:
	case o.Token != "" && named:
		return o, usage(mayfly.Errorf(mayfly.Invalid, "--token and --by exclude each other").WithHint("the token names its user"))
	case strings.TrimSpace(op.reason) == "":
		return o, usage(mayfly.Errorf(mayfly.Invalid, "a reason is required for the audit log").WithHint("pass --reason '…'"))
	default:
		o.By = op.by
	}
	if o.Token == "" && !named {
		o.Token = os.Getenv("MAYFLY_TOKEN")
	}
	if o.URL == "" && a.settings.data == "" {
		o.URL = os.Getenv("MAYFLY_ADMIN")
	}
	return o, nil
}

// idOf parses the one argument of a verb.
func idOf(args []string) (mayfly.ID, error) {
	id, err := mayfly.ParseID(args[0])
	if err != nil {
		return id, usage(err)
	}
	return id, nil
}

// instantOf parses a day (UTC) or an instant; "" is the zero instant.
func instantOf(text string) (mayfly.Instant, error) {
	if day, err := time.Parse(time.DateOnly, text); err == nil {
		return mayfly.InstantOf(day), nil
	}
	var at mayfly.Instant
	err := at.UnmarshalText([]byte(text))
	return at, err
}

// completeWords lets the shell complete a flag whose values are known.
func completeWords(c *cobra.Command, flag string, words ...string) {
	if err := c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the caller has just added the flag
	}
}

// hideFlag leaves a flag out of the help.
func hideFlag(c *cobra.Command, name string) {
	if err := c.Flags().MarkHidden(name); err != nil {
		panic(err) // the caller has just added the flag
	}
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
