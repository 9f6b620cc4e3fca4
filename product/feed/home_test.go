package feed_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/product/feed"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/diskfs"
	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/fixture"
	"github.com/mayflyhq/mayfly/test/pace"
	"github.com/mayflyhq/mayfly/test/social"
)

// society is the system of package social on a store. What has ended is taken out of
// the index now and then, as the reader of the log does, and homes are read on a second
// node, with caches of its own.
type society struct {
	*env
	other *feed.Feed
	rng   *rand.Rand
}

func name(user int) string             { return fmt.Sprint("user ", user) }
func number(user int) mayfly.UserID    { return fixture.User(name(user)) }
func (s *society) Now() mayfly.Instant { return s.clock() }

// Pass is milliseconds, and now and then days, so that months pass.
func (s *society) Pass() {
	d := time.Duration(1+s.rng.IntN(20)) * time.Millisecond
	if s.rng.IntN(20) == 0 {
		d = time.Duration(1+s.rng.IntN(4*24*60)) * time.Minute
	}
	s.pass(d)
	if s.rng.IntN(50) == 0 {
		for _, event := range s.NewEvents(mayfly.Ends) {
			s.Must(s.feed.Ended(s.Context(), event, s.clock()))
		}
	}
}

func (s *society) Follow(reader, author int) (string, error) {
	state, err := s.accounts.Follow(s.Context(), number(reader), number(author), s.clock())
	return state.String(), err
}

func (s *society) Unfollow(reader, author int) error {
	return s.accounts.Unfollow(s.Context(), number(reader), number(author), s.clock())
}

func (s *society) Accept(author, reader int) error {
	return s.accounts.Accept(s.Context(), number(author), number(reader), s.clock())
}

func (s *society) SetFollower(author, reader int) error {
	return s.accounts.Relate(s.Context(), number(author), number(reader), mayfly.Follower, 0, s.clock())
}

func (s *society) Block(user, other int, blocks bool) error {
	set, clear := mayfly.Blocked, mayfly.Relation(0)
	if !blocks {
		set, clear = clear, set
	}
	return s.accounts.Relate(s.Context(), number(user), number(other), set, clear, s.clock())
}

func (s *society) Mute(reader, author int, posts, reposts bool) error {
	var set mayfly.Relation
	if posts {
		set |= mayfly.MutesPosts
	}
	if reposts {
		set |= mayfly.MutesReposts
	}
	return s.accounts.Mute(s.Context(), number(reader), number(author), set, (mayfly.MutesPosts|mayfly.MutesReposts)&^set, s.clock())
}

func (s *society) Private(author int, private bool) error {
	_, err := s.accounts.Change(s.Context(), number(author), account.ProfileChange{Private: &private}, s.clock())
	return err
}

func (s *society) Publish(author int, about mayfly.ID, quote bool, lifetime string) (mayfly.ID, error) {
	d := feed.Draft{Author: number(author), Text: "sea", Lifetime: lifetime, ReplyTo: about}
	if quote {
		d.ReplyTo, d.Quote = d.Quote, d.ReplyTo
	}
	p, err := s.feed.Publish(s.Context(), d, s.clock)
	return p.Item.ID, err
}

func (s *society) Repost(user int, id mayfly.ID) (mayfly.ID, error) {
	p, err := s.feed.Repost(s.Context(), id, number(user), s.clock)
	return p.Item.ID, err
}

func (s *society) Unrepost(user int, id mayfly.ID) error {
	return s.feed.Unrepost(s.Context(), id, number(user), s.clock())
}

func (s *society) Delete(author int, id mayfly.ID) error {
	return s.feed.Delete(s.Context(), id, number(author), s.clock())
}

func (s *society) Hold(id mayfly.ID, held bool) error {
	if held {
		s.Engine.Hold(id)
	} else {
		s.Release(id)
	}
	return s.Set.Signals.Publish(s.Context(), store.Signal{Topic: store.RowChanged, ID: id})
}

func (s *society) Home(reader int, cursor string, limit int) (page social.Page, err error) {
	home, err := s.other.Home(s.Context(), number(reader), cursor, limit, s.clock())
	page.Next = home.Next
	var authors []mayfly.UserID
	for _, p := range home.Posts {
		shown := social.Shown{ID: p.Item.ID}
		if authors = append(authors, p.Item.Owner); p.Of != nil {
			shown.Of = p.Of.Item.ID
			authors = append(authors, p.Of.Item.Owner)
		}
		page.Posts = append(page.Posts, shown)
	}
	for _, a := range home.Authors {
		if !slices.Contains(authors, a.User) {
			s.Errorf("the profile of %s is on a page without its posts", a.User)
		}
		authors = slices.DeleteFunc(authors, func(u mayfly.UserID) bool { return u == a.User })
	}
	if len(authors) > 0 || home.Partial {
		s.Errorf("the authors %v are without a profile; partial is %t", authors, home.Partial)
	}
	return page, err
}

// Every home, page by page, is what a plain model of the same operations says: over
// random graphs, on another node than the one that wrote, after every operation.
func TestEveryHomeIsWhatAPlainModelSays(t *testing.T) {
	pace.Heavy(t, "it reads thousands of homes")
	run := func(t *testing.T, where string, fs diskfs.FS, seed uint64, follows, steps int) {
		rng := rand.New(rand.NewPCG(seed, 0))
		s := &society{env: on(fixture.OpenOn(t, fs)), rng: rng}
		s.other = s.node()
		c := social.Run(t, s, rng, 200, follows, steps)
		t.Log(c)
		about := "home against a plain model, " + where
		storetest.Proof(t, about, "operations", c.Operations)
		storetest.Proof(t, about, "pages", c.Pages)
		storetest.Proof(t, about, "posts", c.Posts)
		storetest.Proof(t, about, "missing, extra, duplicate, misordered", fmt.Sprint(c.Missing, c.Extra, c.Duplicate, c.Misordered))
	}
	for _, seed := range []uint64{1, 2, fixture.Seeded(t).Uint64()} {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { run(t, "in memory", vfs.NewMem(), seed, 8, 1000) })
	}
	t.Run("on disk", func(t *testing.T) {
		t.Chdir(t.TempDir())
		run(t, "on disk", vfs.Default, 3, 4, 300)
	})
}

// homeOf returns a reader's home, read in pages of a size.
func (e *env) homeOf(reader string, limit int) (all []mayfly.ID) {
	e.Helper()
	for cursor, n := "", 0; n == 0 || cursor != ""; n++ {
		home, err := e.feed.Home(e.Context(), user(reader), cursor, limit, e.clock())
		e.Must(err)
		if home.Next != "" && len(home.Posts) != limit {
			e.Errorf("a page of %d posts is not the last, and %d were asked for", len(home.Posts), limit)
		}
		all = append(all, ids(home.Posts)...)
		cursor = home.Next
	}
	return all
}

func (e *env) follow(reader, author string) {
	e.Helper()
	_, err := e.accounts.Follow(e.Context(), user(reader), user(author), e.clock())
	e.Must(err)
}

// Months that end between two posts, that have no post, and that begin while a page
// is read, change nothing.
func TestAHomeGoesOnOverTheBordersOfMonths(t *testing.T) {
	e := open(t)
	e.follow("ben", "ana")
	e.follow("ben", "carl")
	var want []mayfly.ID
	border := mayfly.InstantOf(time.Date(2027, 3, 1, 0, 0, 0, 0, time.UTC))
	for i, at := range []mayfly.Instant{start, border - 2, border - 1, border, border + 1, border.Add(200 * 24 * time.Hour)} {
		e.at(at - 1) // publish moves it
		want = append(want, e.publish(feed.Draft{Author: user([]string{"ana", "carl"}[i%2])}).Item.ID)
	}
	slices.Reverse(want)
	for limit := range 7 {
		if got := e.homeOf("ben", limit+1); !slices.Equal(got, want) {
			t.Errorf("pages of %d: %v, want %v", limit+1, got, want)
		}
	}
	for _, at := range []mayfly.Instant{border - 2, border - 1, border, border + 1} { // by a clock that is behind the one that gave birth
		e.at(at)
		if got := e.homeOf("ben", 10); len(got) < 5 || !slices.Equal(got, want[len(want)-len(got):]) {
			t.Errorf("at %s: %v", at, got)
		}
	}
}

// A page reads each author once, however much they have posted, and nothing of those who
// are muted or of months that it does not show.
func TestAHomeReadsNoMoreThanItShows(t *testing.T) {
	e := open(t)
	const authors = 50
	for n := range authors {
		author := fmt.Sprint("author ", n)
		e.follow("ben", author)
		for range 3 {
			e.publish(feed.Draft{Author: user(author)})
		}
	}
	e.pass(60 * 24 * time.Hour)
	for n := range authors {
		e.publish(feed.Draft{Author: user(fmt.Sprint("author ", n))})
	}
	e.Must(e.accounts.Mute(t.Context(), user("ben"), user("author 0"), mayfly.MutesPosts|mayfly.MutesReposts, 0, e.clock()))
	ranges, gets := e.Hooks.Count("range"), e.Hooks.Count("rows get", "ledger get", "body")
	home, err := e.feed.Home(t.Context(), user("ben"), "", 20, e.clock())
	if e.Must(err); len(home.Posts) != 20 || len(home.Authors) != 20 {
		t.Errorf("%d posts by %d authors", len(home.Posts), len(home.Authors))
	}
	// One for the edges, one for each author.
	if n := e.Hooks.Count("range") - ranges; n != 1+authors-1 {
		t.Errorf("%d ranges", n)
	}
	// Rows, bodies, three of relations, counts, likes, reposts and profiles.
	if n := e.Hooks.Count("rows get", "ledger get", "body") - gets; n != 9 {
		t.Errorf("%d other reads", n)
	}
}

func TestACursorOfAHomeIsForItsReaderOnly(t *testing.T) {
	e := open(t)
	e.follow("ben", "ana")
	e.follow("carl", "ana")
	e.publish(feed.Draft{})
	e.publish(feed.Draft{})
	home, err := e.feed.Home(t.Context(), user("ben"), "", 1, e.clock())
	if err != nil || home.Next == "" {
		t.Fatal(home, err)
	}
	author, err := e.feed.ByAuthor(t.Context(), user("ana"), by("ben"), "", 1, e.clock())
	e.Must(err)
	for why, cursor := range map[string]string{"of another list": author.Next, "changed": "A" + home.Next[1:], "cut": home.Next[1:], "nonsense": "nonsense"} {
		if _, err := e.feed.Home(t.Context(), user("ben"), cursor, 1, e.clock()); !errors.Is(err, mayfly.Invalid) {
			t.Errorf("%s: %v", why, err)
		}
	}
	if _, err := e.feed.Home(t.Context(), user("carl"), home.Next, 1, e.clock()); !errors.Is(err, mayfly.Invalid) {
		t.Errorf("of another reader: %v", err)
	}
}

// A service may set an edge to an author whom the reader blocks: the block stands.
func TestAHomeHasNothingOfWhomItsReaderBlocks(t *testing.T) {
	e := open(t)
	e.publish(feed.Draft{})
	e.Must(e.accounts.Relate(t.Context(), user("ben"), user("ana"), mayfly.Blocked, 0, e.clock()))
	e.Must(e.accounts.Relate(t.Context(), user("ana"), user("ben"), mayfly.Follower, 0, e.clock()))
	if all := e.homeOf("ben", 5); len(all) != 0 {
		t.Errorf("%d posts", len(all))
	}
	e.Must(e.accounts.Relate(t.Context(), user("ben"), user("ana"), 0, mayfly.Blocked, e.clock()))
	if all := e.homeOf("ben", 5); len(all) != 1 {
		t.Errorf("%d posts without the block", len(all))
	}
}

// A reader of too many authors gets the home of as many as one is merged from, and it
// says so. Replies to others in between make a page short, not slow.
func TestAHomeIsBounded(t *testing.T) {
	pace.Heavy(t, "it follows thousands of authors")
	e := open(t)
	for n := range feed.HomeAuthors {
		e.follow("ben", fmt.Sprint("author ", n))
	}
	if home, err := e.feed.Home(t.Context(), user("ben"), "", 5, e.clock()); err != nil || home.Partial {
		t.Errorf("%+v, %v", home, err)
	}
	e.follow("ben", "one more")
	if home, err := e.feed.Home(t.Context(), user("ben"), "", 5, e.clock()); err != nil || !home.Partial {
		t.Errorf("%+v, %v", home, err)
	}
}

func TestAPageOfAHomeEndsAtTheEntriesThatItMayRead(t *testing.T) {
	e := open(t)
	e.follow("ben", "ana")
	old := e.publish(feed.Draft{}).Item.ID
	about := e.publish(feed.Draft{Author: user("carl")}).Item.ID
	var b store.Batch
	for n := range feed.HomeScan + 1 { // replies to another, as the index has them
		id, err := mayfly.NewID(e.clock().Add(time.Duration(n+1)*time.Millisecond), mayfly.Never, 0, uint64(n))
		e.Must(err)
		b.Put(feed.Posts, feed.PostKey(user("ana"), id), feed.ReplyEntry(about), 0)
	}
	e.Must(e.Set.Writer.Commit(t.Context(), &b))
	e.pass(time.Minute)
	home, err := e.feed.Home(t.Context(), user("ben"), "", 5, e.clock())
	if err != nil || len(home.Posts) > 0 || home.Next == "" {
		t.Fatalf("%+v, %v", home, err)
	}
	home, err = e.feed.Home(t.Context(), user("ben"), home.Next, 5, e.clock())
	if err != nil || !slices.Equal(ids(home.Posts), []mayfly.ID{old}) || home.Next != "" {
		t.Errorf("%+v, %v", home, err)
	}
}
