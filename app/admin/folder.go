package admin

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

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/app/profile"
	"github.com/mayflyhq/mayfly/app/progress"
	"github.com/mayflyhq/mayfly/app/server"
	"github.com/mayflyhq/mayfly/engine/scrub"
	"github.com/mayflyhq/mayfly/engine/verify"
	"github.com/mayflyhq/mayfly/engine/walk"
)

// Folder is an open data folder with an idle node on it: a node without loops.
type Folder struct {
	store    *profile.Store
	node     *node.Node
	now      mayfly.Instant // by the folder's own clock
	progress *progress.Progress
}

// OnFolder opens the data folder, calls work, and closes it. It returns an
// InUseError if a process uses the folder.
func OnFolder(ctx context.Context, opt Options, work func(ctx context.Context, f *Folder) error) (err error) {
	cfg := opt.Config
	if cfg.Profile == config.Cluster {
		return mayfly.Errorf(mayfly.Invalid, "on a cluster the items are not in the data folder").
			WithHint("ask a running node: name its admin API with --admin")
	}
	if !hasData(cfg) {
		return mayfly.Errorf(mayfly.NotFound, "there is no data folder at %s", cfg.Data).WithHint("name it with --data")
	}
	f := &Folder{progress: progress.New(opt.Progress, false)}
	if f.store, err = profile.Embedded(cfg, node.Tables()); errors.Is(err, mayfly.Conflict) {
		return InUseError{err}
	} else if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.store.Close()) }()
	if err := server.RemoveAdminFile(cfg.Data); err != nil { // the server that wrote it has ended: this process holds the lock
		return err
	}
	o := node.FromConfig(cfg)
	o.Idle = true
	if o.Products.Key, err = node.LoadKey(cfg); err != nil {
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
func (f *Folder) adminHandler(cfg config.Config) (http.Handler, error) {
	api, err := f.node.API(node.ServeOptions{Listen: cfg.Listen, Logger: slog.New(slog.DiscardHandler), Version: server.Version})
	if err != nil {
		return nil, err
	}
	return api.Admin(), nil
}

// show returns a function that shows how much is done, and one that ends that.
func (f *Folder) show(name, what string) (show func(done, of int), end func()) {
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

// Scrub reads every cold copy of the folder, at most mibs MiB per second.
func (f *Folder) Scrub(ctx context.Context, mibs int64) (wire.Scrub, error) {
	origin, err := walk.Origin(ctx, f.store.Set.Rows, f.now)
	if err != nil {
		return wire.Scrub{}, err
	}
	show, end := f.show("scrub", "minutes of deadlines")
	defer end()
	return f.node.AdminOperations().Scrub(ctx, scrub.Run{Rows: walk.Span{From: origin, To: f.now}, Now: f.now, BytesPerSecond: mibs << 20, Progress: show})
}

// Verify measures the seven words over the whole folder; it reads the bytes of media
// unless quick.
func (f *Folder) Verify(ctx context.Context, quick bool) (*verify.Report, error) {
	show, end := f.show("verify", "minutes of deadlines")
	defer end()
	return f.node.AdminOperations().Verify(ctx, quick, func(minutes int) { show(minutes, 0) }, f.now)
}

// InUseError is the error of a folder that another process has locked.
type InUseError struct{ err error }

// Error leaves the hint out: what to do depends on the verb.
func (e InUseError) Error() string {
	if known := (*mayfly.Error)(nil); errors.As(e.err, &known) && known.Err != nil {
		return known.Err.Error()
	}
	return e.err.Error()
}

func (e InUseError) Unwrap() error { return e.err }

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
