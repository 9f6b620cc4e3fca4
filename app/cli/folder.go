package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/app/profile"
	"github.com/mayflyhq/mayfly/app/progress"
	"github.com/mayflyhq/mayfly/app/server"
)

// folder is an open data folder with an idle node on it: a node without loops.
type folder struct {
	store    *profile.Store
	node     *node.Node
	now      mayfly.Instant // by the folder's own clock
	progress *progress.Progress
}

// onFolder opens the data folder, calls work, and closes it. It returns an
// inUseError if a process uses the folder.
func (a *admin) onFolder(c *cobra.Command, work func(ctx context.Context, f *folder) error) (err error) {
	ctx := c.Context()
	if a.config.Profile == config.Cluster {
		return mayfly.Errorf(mayfly.Invalid, "on a cluster the items are not in the data folder").
			WithHint("ask a running node: name its admin API with --admin")
	}
	if !hasData(a.config) {
		return mayfly.Errorf(mayfly.NotFound, "there is no data folder at %s", a.config.Data).WithHint("name it with --data")
	}
	f := &folder{progress: progress.New(c.ErrOrStderr(), false)}
	if f.store, err = profile.Embedded(a.config, node.Tables()); errors.Is(err, mayfly.Conflict) {
		return inUseError{err}
	} else if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.store.Close()) }()
	if err := server.RemoveAdminFile(a.config.Data); err != nil { // the server that wrote it has ended: this process holds the lock
		return err
	}
	o := node.FromConfig(a.config)
	o.Idle, o.Source = true, a.source
	if o.Products.Key, err = node.LoadKey(a.config); err != nil {
		return err
	}
	if f.node, err = node.Start(ctx, f.store.Set, o); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.node.Stop(context.WithoutCancel(ctx))) }()
	r := f.node.Clock().Read()
	if r.Err != nil {
		return r.Err
	}
	f.now = r.Steady
	return work(ctx, f)
}

func hasData(cfg config.Config) bool {
	_, err := os.Stat(filepath.Join(cfg.Data, "FORMAT"))
	return !errors.Is(err, fs.ErrNotExist)
}

// adminHandler returns the handler of the admin API.
func (f *folder) adminHandler(cfg config.Config) (http.Handler, error) {
	api, err := f.node.API(node.ServeOptions{Listen: cfg.Listen, Logger: slog.New(slog.DiscardHandler), Version: server.Version})
	if err != nil {
		return nil, err
	}
	return api.Admin(), nil
}

// show returns a function that shows how much is done, and one that ends that.
func (f *folder) show(name, what string) (show func(done, of int), end func()) {
	var stage *progress.Stage
	shown := 0
	f.progress.Name(name)
	show = func(done, of int) {
		if stage == nil {
			stage = f.progress.Begin(what, of)
		}
		stage.Add(done - shown)
		shown = done
	}
	return show, func() {
		if stage != nil {
			stage.End()
		}
	}
}

// inUseError is the error of a folder that another process has locked.
type inUseError struct{ err error }

// Error leaves the hint out: what to do depends on the verb.
func (e inUseError) Error() string {
	if known := (*mayfly.Error)(nil); errors.As(e.err, &known) && known.Err != nil {
		return known.Err.Error()
	}
	return e.err.Error()
}

func (e inUseError) Unwrap() error { return e.err }

// inProcessHost stands for the folder in URLs of the in-process API.
const inProcessHost = "folder.invalid"

// inProcess is an http.RoundTripper that calls a handler instead of a server.
type inProcess struct{ handler http.Handler }

func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	in := r.Clone(r.Context())
	in.RemoteAddr, in.RequestURI, in.Host = "127.0.0.1:0", r.URL.RequestURI(), r.URL.Host
	if in.Body == nil {
		in.Body = http.NoBody
	}
	w := &response{header: http.Header{}, status: http.StatusOK}
	p.handler.ServeHTTP(w, in)
	return &http.Response{
		Status: http.StatusText(w.status), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r,
	}, errors.Join(in.Body.Close())
}

// response is an http.ResponseWriter that keeps the response.
type response struct {
	header http.Header
	status int
	wrote  bool
	body   bytes.Buffer
}

func (w *response) Header() http.Header { return w.header }

func (w *response) WriteHeader(status int) {
	if !w.wrote && status >= http.StatusOK {
		w.status, w.wrote = status, true
	}
}

func (w *response) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}
