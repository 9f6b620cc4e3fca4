package feed_test

import (
	"bytes"
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/erase"
	"github.com/mayflyhq/mayfly/engine/gate"
	"github.com/mayflyhq/mayfly/engine/hydrate"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/product/feed"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/fixture"
)

const start = fixture.Start

func user(name string) mayfly.UserID { return fixture.User(name) }

// env is posts on the embedded store. Its clock stands still until a test moves it.
type env struct {
	*fixture.Engine
	feed     *feed.Feed
	accounts *account.Accounts
	erase    *erase.Erase
	now      atomic.Int64

	relations map[[2]mayfly.UserID]mayfly.Relation // changed between calls only
}

// relate changes how an owner stands to a viewer beside what accounts have, and tells the gates.
func (e *env) relate(owner, viewer mayfly.UserID, r mayfly.Relation) {
	e.Helper()
	e.relations[[2]mayfly.UserID{owner, viewer}] = r
	e.Must(e.Set.Signals.Publish(e.Context(), store.Signal{Topic: store.RelationsChanged, Owner: owner, ID: mayfly.ID(viewer)}))
}

func open(t testing.TB, change ...func(*feed.Options)) *env {
	t.Helper()
	return on(fixture.Open(t), change...)
}

func on(engine *fixture.Engine, change ...func(*feed.Options)) *env {
	engine.Helper()
	e := &env{Engine: engine, relations: map[[2]mayfly.UserID]mayfly.Relation{}}
	e.at(start)
	e.feed = e.node(change...)
	return e
}

// node returns posts with caches of their own on the same store, as another node has
// them.
func (e *env) node(change ...func(*feed.Options)) *feed.Feed {
	e.Helper()
	return e.nodeOn(e.Set, change...)
}

func (e *env) nodeOn(set store.Set, change ...func(*feed.Options)) *feed.Feed {
	e.Helper()
	key, err := account.LoadKey(filepath.Join(e.TempDir(), "key"))
	e.Must(err)
	accounts, err := account.New(context.Background(), account.Options{Rows: set.Rows, Signals: set.Signals, Key: key})
	e.Must(err)
	e.Cleanup(func() { e.Must(accounts.Close()) })
	e.accounts = accounts
	g, err := gate.New(context.Background(), set, gate.Options{Relations: func(ctx context.Context, viewer mayfly.UserID, owners ...mayfly.UserID) ([]mayfly.Relation, error) {
		all, err := accounts.RelationsOf(ctx, viewer, owners...)
		for i := range all {
			all[i] |= e.relations[[2]mayfly.UserID{owners[i], viewer}]
		}
		return all, err
	}})
	e.Must(err)
	e.Cleanup(func() { e.Must(g.Close()) })
	h, err := hydrate.New(set, hydrate.Options{})
	e.Must(err)
	e.Cleanup(h.Close)
	e.erase, err = erase.New(set, erase.Options{})
	e.Must(err)
	uploads, err := upload.New(set, upload.Options{})
	e.Must(err)
	in, err := intake.New(set, intake.Options{})
	e.Must(err)
	o := feed.Options{
		Rows: set.Rows, Writer: set.Writer, Uploads: uploads, Intake: in, Gate: g, Hydrate: h, Erase: e.erase, Accounts: accounts,
		Secret: bytes.Repeat([]byte{7}, 32), Shortest: fixture.Lifetime(e, time.Minute), Longest: fixture.Lifetime(e, 365*24*time.Hour), Never: true,
	}
	for _, c := range change {
		c(&o)
	}
	f, err := feed.New(o)
	e.Must(err)
	return f
}

func (e *env) clock() mayfly.Instant { return mayfly.Instant(e.now.Load()) }

func (e *env) at(i mayfly.Instant) { e.now.Store(int64(i)) }

func (e *env) pass(d time.Duration) { e.at(e.clock().Add(d)) }

// publish makes a post, a millisecond after the last one.
func (e *env) publish(d feed.Draft) feed.Post {
	e.Helper()
	e.pass(time.Millisecond)
	if d.Author.IsZero() {
		d.Author = user("ana")
	}
	if d.Text == "" {
		d.Text = "sea"
	}
	p, err := e.feed.Publish(e.Context(), d, e.clock)
	e.Must(err)
	return p
}

// by returns the viewer of a name; the empty name is anonymous.
func by(name string) mayfly.Viewer {
	switch name {
	case "":
		return mayfly.Viewer{}
	case "moderator":
		return mayfly.ModeratorOf(mayfly.UserID{})
	default:
		return mayfly.ViewerOf(user(name))
	}
}

// wantOpen opens the post as each of the viewers and wants the same of all.
func (e *env) wantOpen(id mayfly.ID, want error, viewers ...string) {
	e.Helper()
	for _, name := range viewers {
		if _, err := e.feed.Open(e.Context(), id, by(name), e.clock()); err != want {
			e.Errorf("%q opens %s at %s: %v, want %v", name, id, e.clock(), err, want)
		}
	}
}

// ids returns the ids of posts.
func ids(posts []feed.Post) []mayfly.ID {
	all := make([]mayfly.ID, len(posts))
	for i, p := range posts {
		all[i] = p.Item.ID
	}
	return all
}

// rowsOf counts the rows of an author in the author index: months and posts.
func (e *env) rowsOf(name string) int {
	e.Helper()
	u, n := user(name), 0
	for _, month := range e.Partition(feed.Posts, string(u[:])) {
		n += 1 + len(e.Partition(feed.Posts, string(u[:])+month.Clustering))
	}
	return n
}

// eraseNow erases the bytes of items as their reminder does.
func (e *env) eraseNow(rows ...mayfly.ID) {
	e.Helper()
	var items []mayfly.Item
	for _, id := range rows {
		items = append(items, e.Row(id))
	}
	failures, err := e.erase.Act(context.Background(), walk.Batch{Items: items, Now: e.clock(), Repeat: true})
	e.Must(err)
	if len(failures) > 0 {
		e.Fatalf("%+v", failures)
	}
}
