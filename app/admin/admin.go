// Package admin reaches the admin API for a command: of a running server over
// HTTP, or in process on a data folder that no process uses. A command works the
// same on both, because both are the same handler.
package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/app/server"
	"github.com/mayflyhq/mayfly/client"
)

// Options says which admin API, and as whom.
type Options struct {
	Config   config.Config
	URL      string    // of a server's admin API; "" means the data folder, or the server that uses it
	Token    string    // "" means one made with the data folder's key
	By       string    // user of the token that is made
	Changes  bool      // the command changes something, so the token names a user
	Long     bool      // the command may take hours, and so long is the token that is made good
	Progress io.Writer // where long work on a folder shows how far it is
}

// API is an admin API, open for one command.
type API struct {
	*client.Client
	Now    mayfly.Instant
	Folder *Folder // nil: a server uses the data
}

// Do calls work with the admin API of the server that o names, of the folder if no
// process uses it, else of the server that does.
func Do(ctx context.Context, o Options, work func(ctx context.Context, api API) error) error {
	if o.URL != "" {
		return onServer(ctx, o, work)
	}
	err := OnFolder(ctx, o, func(ctx context.Context, f *Folder) error { return f.inProcess(ctx, o, work) })
	var used InUseError
	if !errors.As(err, &used) {
		return err
	}
	switch o.URL, err = server.AdminURL(o.Config.Data); {
	case err != nil:
		return err
	case o.URL == "":
		return mayfly.Wrap(mayfly.Conflict, fmt.Errorf("%w, which has no admin listener", used),
			"if it is a server, start it with one (listen.admin); if it has just started, try again; else wait until it is done, or stop it")
	}
	return onServer(ctx, o, work)
}

// Ask calls work with the admin API of the server at o.URL, or with that of the
// data folder if no server answers.
func Ask(ctx context.Context, o Options, work func(ctx context.Context, api API) error) error {
	err := onServer(ctx, o, work)
	if !isAway(err) || !hasData(o.Config) {
		return err
	}
	err = OnFolder(ctx, o, func(ctx context.Context, f *Folder) error { return f.inProcess(ctx, o, work) })
	if errors.As(err, new(InUseError)) {
		return mayfly.Wrap(mayfly.Conflict, err, "no server answers at "+o.URL+", and one uses the folder: name its admin API with --admin")
	}
	return err
}

// onServer calls work with the admin API at o.URL.
func onServer(ctx context.Context, o Options, work func(ctx context.Context, api API) error) error {
	// No timeout: undoing a run and verifying a long audit log may take minutes,
	// and the user can interrupt them.
	transport := http.DefaultTransport.(*http.Transport).Clone()
	err := o.call(ctx, o.URL, transport, API{Now: mayfly.InstantOf(time.Now())}, work)
	if isAway(err) {
		return mayfly.Wrap(mayfly.Unavailable, err, "no server answers at "+o.URL+": name its admin API with --admin")
	}
	return err
}

// inProcess calls work with the admin API of the idle node on a folder.
func (f *Folder) inProcess(ctx context.Context, o Options, work func(ctx context.Context, api API) error) error {
	handler, err := f.adminHandler(o.Config)
	if err != nil {
		return err
	}
	return o.call(ctx, "http://"+inProcessHost, inProcess{handler}, API{Now: f.now, Folder: f}, work)
}

// call calls work with a client of the admin API at url.
func (o Options) call(ctx context.Context, url string, by http.RoundTripper, api API, work func(ctx context.Context, api API) error) error {
	token, err := o.bearer(api.Now)
	if err != nil {
		return err
	}
	api.Client, err = client.New(url, client.Options{Token: token, HTTP: &http.Client{Transport: by}, Retries: -1, Agent: "mayfly/" + server.Version})
	if err != nil {
		return err
	}
	defer api.Close()
	return work(ctx, api)
}

// tokenLifetime is the lifetime of a token that is made for one command. It is
// checked when a request arrives.
const (
	tokenLifetime     = 5 * time.Minute
	longTokenLifetime = 24 * time.Hour
)

// bearer returns the token that was given, or one made with the data folder's key.
func (o Options) bearer(now mayfly.Instant) (string, error) {
	if o.Token != "" {
		return o.Token, nil
	}
	request := node.TokenRequest{Scope: "admin", Lasts: tokenLifetime}
	if o.Long {
		request.Lasts = longTokenLifetime
	}
	if o.Changes {
		if request.User = o.By; strings.TrimSpace(o.By) == "" {
			return "", mayfly.Errorf(mayfly.Invalid, "a name is required for the audit log").WithHint("pass --by NAME")
		}
	}
	token, err := node.MintToken(o.Config, request, now)
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

// OrAbsent names what is not found, which the answer of a server does not.
func OrAbsent(err error, what string, args ...any) error {
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
