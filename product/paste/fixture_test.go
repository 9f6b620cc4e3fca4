package paste_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/erase"
	"github.com/mayflyhq/mayfly/engine/gate"
	"github.com/mayflyhq/mayfly/engine/hydrate"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/product/paste"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/fixture"
)

const start = fixture.Start

// env is pastes on the embedded store. Its clock stands still until a test moves it.
type env struct {
	*fixture.Engine
	pastes *paste.Pastes
	erase  *erase.Erase
	now    atomic.Int64
}

func open(t testing.TB, change ...func(*paste.Options)) *env {
	t.Helper()
	e := &env{Engine: fixture.Open(t)}
	e.at(start)
	e.pastes = e.node(change...)
	return e
}

// node returns pastes with caches of their own on the same store, as another node
// has them.
func (e *env) node(change ...func(*paste.Options)) *paste.Pastes {
	e.Helper()
	g, err := gate.New(context.Background(), e.Set, gate.Options{})
	e.Must(err)
	e.Cleanup(func() { e.Must(g.Close()) })
	h, err := hydrate.New(e.Set, hydrate.Options{})
	e.Must(err)
	e.Cleanup(h.Close)
	e.erase, err = erase.New(e.Set, erase.Options{})
	e.Must(err)
	o := paste.Options{
		Rows: e.Set.Rows, Writer: e.Set.Writer, Uploads: e.Uploads(upload.Options{}), Intake: e.Intake(intake.Options{}), Gate: g, Hydrate: h, Erase: e.erase,
		Secret: bytes.Repeat([]byte{7}, 32), Anonymous: true,
	}
	for _, c := range change {
		c(&o)
	}
	p, err := paste.New(o)
	e.Must(err)
	return p
}

func (e *env) clock() mayfly.Instant { return mayfly.Instant(e.now.Load()) }

func (e *env) at(i mayfly.Instant) { e.now.Store(int64(i)) }

func (e *env) pass(d time.Duration) { e.at(e.clock().Add(d)) }

// create makes a paste of text.
func (e *env) create(d paste.Draft, text string) paste.Paste {
	e.Helper()
	d.Content = strings.NewReader(text)
	p, err := e.pastes.Create(e.Context(), d, e.clock)
	e.Must(err)
	return p
}

// read returns the content for an anonymous viewer.
func (e *env) read(id mayfly.ID, password string) (string, error) {
	e.Helper()
	return e.readAs(id, mayfly.Viewer{}, password)
}

func (e *env) readAs(id mayfly.ID, viewer mayfly.Viewer, password string) (string, error) {
	e.Helper()
	c, err := e.pastes.Read(e.Context(), id, viewer, password, e.clock())
	if err != nil {
		return "", err
	}
	all, err := io.ReadAll(c)
	e.Must(err)
	e.Must(c.Close())
	return string(all), nil
}

// claim reads the content and consumes a read.
func (e *env) claim(id mayfly.ID, password string) (string, error) {
	return readAll(e.pastes.Claim(context.Background(), id, mayfly.Viewer{}, password, e.clock))
}

// failOpen returns a hook that fails every open of an object.
func failOpen(err error) func(context.Context, mayfly.BlobKey, func() (io.ReadCloser, store.Object, error)) (io.ReadCloser, store.Object, error) {
	return func(context.Context, mayfly.BlobKey, func() (io.ReadCloser, store.Object, error)) (io.ReadCloser, store.Object, error) {
		return nil, store.Object{}, err
	}
}

// readAll reads and closes content.
func readAll(c *paste.Content, err error) (string, error) {
	if err != nil {
		return "", err
	}
	all, err := io.ReadAll(c)
	return string(all), errors.Join(err, c.Close())
}
