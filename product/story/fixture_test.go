package story_test

import (
	"bytes"
	"context"
	"io"
	"iter"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/accounterase"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/erase"
	"github.com/mayflyhq/mayfly/engine/gate"
	"github.com/mayflyhq/mayfly/engine/hydrate"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/engine/restore"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/product/story"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/fixture"
)

const start = fixture.Start

func user(name string) mayfly.UserID { return fixture.User(name) }

func photo(t testing.TB, shade byte) []byte { return fixture.Photo(t, shade) }

// env is stories on the embedded store. Its clock stands still until a test moves it.
type env struct {
	*fixture.Engine
	stories  *story.Stories
	options  story.Options // of stories
	uploads  *upload.Uploads
	hydrate  *hydrate.Hydrate
	erase    *erase.Erase
	accounts *accounterase.Eraser
	restore  *restore.Restore
	now      atomic.Int64
	doubt    atomic.Bool // the clock is in doubt: no id may be minted

	relations map[[2]mayfly.UserID]mayfly.Relation // set before the first read
	related   atomic.Int64                         // how often a relation was looked up
}

// settings are what a test changes before the stories are opened.
type settings struct {
	story.Options
	Upload    upload.Options
	Set       *store.Set
	CacheRows int // of the gate
}

func open(t testing.TB, change ...func(*settings)) *env {
	t.Helper()
	e := &env{Engine: fixture.Open(t), relations: map[[2]mayfly.UserID]mayfly.Relation{}}
	e.at(start)
	o := settings{Upload: upload.Options{MayMint: e.mayMint}, Set: &e.Set}
	for _, c := range change {
		c(&o)
	}
	log, err := audit.Open(t.Context(), e.Set.Rows, "test", start)
	e.Must(err)
	e.uploads = e.Uploads(o.Upload)
	g, err := gate.New(t.Context(), e.Set, gate.Options{Relations: fixture.OneByOne(e.relation), CacheRows: o.CacheRows})
	e.Must(err)
	t.Cleanup(func() { e.Must(g.Close()) })
	e.hydrate, err = hydrate.New(e.Set, hydrate.Options{})
	e.Must(err)
	t.Cleanup(e.hydrate.Close)
	e.erase, err = erase.New(e.Set, erase.Options{})
	e.Must(err)
	e.accounts, err = accounterase.New(e.Set, e.erase, accounterase.Options{Audit: log, Deletions: e.Set.Deletions})
	e.Must(err)
	e.restore, err = restore.New(e.Set, log, restore.Options{Window: 90 * time.Minute, Retention: 3 * 365 * 24 * time.Hour})
	e.Must(err)
	o.Rows, o.Writer, o.Uploads, o.Intake = e.Set.Rows, e.Set.Writer, e.uploads, e.Intake(intake.Options{MayMint: e.mayMint})
	o.Gate, o.Hydrate, o.Erase = g, e.hydrate, e.erase
	e.options = o.Options
	e.stories, err = story.New(o.Options)
	e.Must(err)
	return e
}

func (e *env) mayMint() error {
	if e.doubt.Load() {
		return mayfly.Errorf(mayfly.Unavailable, "the clock is in doubt")
	}
	return nil
}

func (e *env) clock() mayfly.Instant { return mayfly.Instant(e.now.Load()) }

func (e *env) at(i mayfly.Instant) { e.now.Store(int64(i)) }

func (e *env) pass(d time.Duration) { e.at(e.clock().Add(d)) }

func (e *env) relation(_ context.Context, owner, viewer mayfly.UserID) (mayfly.Relation, error) {
	e.related.Add(1)
	return e.relations[[2]mayfly.UserID{owner, viewer}], nil
}

func (e *env) relate(owner, viewer mayfly.UserID, r mayfly.Relation) {
	e.relations[[2]mayfly.UserID{owner, viewer}] = r
}

// media returns readers of bytes, one after the other.
func media(all ...[]byte) iter.Seq2[io.Reader, error] {
	return func(yield func(io.Reader, error) bool) {
		for _, b := range all {
			if !yield(bytes.NewReader(b), nil) {
				return
			}
		}
	}
}

// draft returns a story by Ana with one photo.
func (e *env) draft() story.Draft {
	return story.Draft{Author: user("ana"), Caption: "sea", Audience: "everyone", Media: media(photo(e, 7))}
}

func (e *env) publish(d story.Draft) story.Story {
	e.Helper()
	s, err := e.stories.Publish(e.Context(), d, e.clock)
	e.Must(err)
	return s
}

// signalled sends the signals that every step sends after it has changed a row.
func (e *env) signalled(id mayfly.ID) {
	e.Helper()
	for _, topic := range []store.Topic{store.RowChanged, store.RestoredSet} {
		e.Must(e.Set.Signals.Publish(e.Context(), store.Signal{Topic: topic, ID: id}))
	}
}

// sweep expires a story now.
func (e *env) sweep(id mayfly.ID) {
	e.Helper()
	e.Sweep(e.clock(), 1, id)
	e.signalled(id)
}

// archive moves a story to cold storage.
func (e *env) archive(id mayfly.ID) {
	e.Helper()
	e.Archive(e.clock(), 1, id)
	e.signalled(id)
}

func (e *env) count(t store.Table, partition string) int { return len(e.Partition(t, partition)) }

func (e *env) objects(tier store.Blobs) int { return len(e.Objects(tier)) }
