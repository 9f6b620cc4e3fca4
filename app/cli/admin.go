package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/app/server"
	"github.com/mayflyhq/mayfly/client"
	"github.com/mayflyhq/mayfly/engine/clock"
)

// adminHelp is the part of the help that all admin verbs share.
const adminHelp = "It works on the data folder, or through the server that uses the folder; --admin names another server. Changes are\n" +
	"recorded in the audit log."

// admin is how a verb reaches the admin API: of a running server over HTTP, or
// in process on a data folder that no process uses.
type admin struct {
	settings settings
	url      string
	token    string
	source   clock.Source // time of a stopped folder; the system's except in tests

	config config.Config
}

// adminAPI is what an admin verb works with.
type adminAPI struct {
	*client.Client
	now    mayfly.Instant
	folder *folder // nil: a server uses the data
}

// flags adds the flags of every admin verb.
func (a *admin) flags(c *cobra.Command) {
	a.settings.flags(c)
	c.Flags().StringVar(&a.url, "admin", "", "URL of a server's admin API (default: that of the server that uses the data folder, if one does; MAYFLY_ADMIN without --data)")
	c.Flags().StringVar(&a.token, "token", "", "access token with the scope admin (default MAYFLY_TOKEN, or one made with the data folder's key)")
}

// do calls work with the admin API of the server that --admin names, of the
// folder if no process uses it, else of the server that does. op is nil for a
// verb that changes nothing.
func (a *admin) do(c *cobra.Command, op *operation, work func(ctx context.Context, api adminAPI) error) error {
	if err := a.load(c, op); err != nil {
		return err
	}
	if a.url == "" && a.settings.data == "" {
		a.url = os.Getenv("MAYFLY_ADMIN")
	}
	if a.url != "" {
		return a.onServer(c, op, work)
	}
	err := a.onFolder(c, func(ctx context.Context, f *folder) error { return a.inProcess(ctx, c, f, op, work) })
	var used inUseError
	if !errors.As(err, &used) {
		return err
	}
	switch a.url, err = server.AdminURL(a.config.Data); {
	case err != nil:
		return err
	case a.url == "":
		return mayfly.Wrap(mayfly.Conflict, fmt.Errorf("%w, which has no admin listener", used),
			"if it is a server, start it with one (listen.admin); if it has just started, try again; else wait until it is done, or stop it")
	}
	return a.onServer(c, op, work)
}

// load loads the configuration and refuses an operation without a reason.
func (a *admin) load(c *cobra.Command, op *operation) (err error) {
	if a.config, err = a.settings.load(nil); err != nil {
		return err
	}
	switch {
	case op == nil:
		return nil
	case a.token != "" && c.Flags().Changed("by"):
		return usage(mayfly.Errorf(mayfly.Invalid, "--token and --by exclude each other").WithHint("the token names its user"))
	case strings.TrimSpace(op.reason) == "":
		return usage(mayfly.Errorf(mayfly.Invalid, "a reason is required for the audit log").WithHint("pass --reason '…'"))
	}
	return nil
}

// onServer calls work with the admin API at a.url.
func (a *admin) onServer(c *cobra.Command, op *operation, work func(ctx context.Context, api adminAPI) error) error {
	now := mayfly.InstantOf(time.Now())
	token, err := a.bearer(c, op, now)
	if err != nil {
		return err
	}
	// No timeout: undoing a run and verifying a long audit log may take minutes,
	// and the user can interrupt them.
	transport := http.DefaultTransport.(*http.Transport).Clone()
	api, err := client.New(a.url, client.Options{Token: token, HTTP: &http.Client{Transport: transport}, Retries: -1, Agent: "mayfly/" + server.Version})
	if err != nil {
		return usage(err)
	}
	defer api.Close()
	err = work(c.Context(), adminAPI{Client: api, now: now})
	if isAway(err) {
		return mayfly.Wrap(mayfly.Unavailable, err, "no server answers at "+a.url+": name its admin API with --admin")
	}
	return err
}

// inProcess calls work with the admin API of an idle node on a folder.
func (a *admin) inProcess(ctx context.Context, c *cobra.Command, f *folder, op *operation, work func(ctx context.Context, api adminAPI) error) error {
	handler, err := f.adminHandler(a.config)
	if err != nil {
		return err
	}
	token, err := a.bearer(c, op, f.now)
	if err != nil {
		return err
	}
	api, err := client.New("http://"+inProcessHost, client.Options{Token: token, HTTP: &http.Client{Transport: inProcess{handler}}, Retries: -1, Agent: "mayfly/" + server.Version})
	if err != nil {
		return err
	}
	defer api.Close()
	return work(ctx, adminAPI{Client: api, now: f.now, folder: f})
}

// tokenLifetime is the lifetime of a token that is made for one verb. It is
// checked when a request arrives.
const tokenLifetime = 5 * time.Minute

// bearer returns the token that was given, or one made with the data folder's key
// for the user of op.
func (a *admin) bearer(c *cobra.Command, op *operation, now mayfly.Instant) (string, error) {
	if a.token != "" {
		return a.token, nil
	}
	named := op != nil && c.Flags().Changed("by")
	if given := os.Getenv("MAYFLY_TOKEN"); given != "" && !named {
		return given, nil
	}
	request := node.TokenRequest{Scope: "admin", Lasts: tokenLifetime}
	if op != nil {
		if request.User = op.by; strings.TrimSpace(op.by) == "" {
			return "", usage(mayfly.Errorf(mayfly.Invalid, "a name is required for the audit log").WithHint("pass --by NAME"))
		}
	}
	token, err := node.MintToken(a.config, request, now)
	if err != nil {
		return "", fmt.Errorf("make a token for the admin API: %w", err)
	}
	return string(token), nil
}

// isAway reports whether no server answered.
func isAway(err error) bool {
	var answered *client.Error
	return errors.Is(err, mayfly.Unavailable) && !errors.As(err, &answered)
}

// orAbsent names what is not found, which the answer of a server does not.
func orAbsent(err error, what string, args ...any) error {
	what = fmt.Sprintf(what, args...)
	switch {
	case errors.Is(err, mayfly.NotFound):
		return mayfly.Errorf(mayfly.NotFound, "there is no %s", what)
	case errors.Is(err, mayfly.Gone):
		return mayfly.Errorf(mayfly.Gone, "%s is deleted, or ended too long ago", what).WithHint("mayfly explain says which")
	default:
		return err
	}
}

// operation is who changes something and why, for the audit log.
type operation struct{ by, reason string }

func (o *operation) flags(c *cobra.Command) {
	c.Flags().StringVar(&o.by, "by", os.Getenv("USER"), "who does it, for the audit log")
	c.Flags().StringVar(&o.reason, "reason", "", "why, for the audit log (required)")
}

// idOf parses the one argument of a verb.
func idOf(args []string) (mayfly.ID, error) {
	id, err := mayfly.ParseID(args[0])
	if err != nil {
		return id, usage(err)
	}
	return id, nil
}

// untilOf parses an instant, or a duration from now.
func untilOf(text string, now mayfly.Instant) (mayfly.Instant, error) {
	if l, err := mayfly.ParseLifetime(text); err == nil && l != mayfly.Never {
		return now.Add(l.Duration()), nil
	}
	var at mayfly.Instant
	if err := at.UnmarshalText([]byte(text)); err != nil {
		return 0, usage(fmt.Errorf("invalid --until %q: write a duration such as 24h, or an instant such as %s", text, now.Add(24*time.Hour)))
	}
	return at, nil
}
