package feed_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/product/feed"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/fixture"
	"github.com/mayflyhq/mayfly/test/pace"
)

// show opens a post that the viewer may see.
func (e *env) show(id mayfly.ID, viewer string) feed.Post {
	e.Helper()
	p, err := e.feed.Open(e.Context(), id, by(viewer), e.clock())
	e.Must(err)
	return p
}

// listOf returns the posts of an author's page.
func (e *env) listOf(author, viewer string) []feed.Post {
	e.Helper()
	page, err := e.feed.ByAuthor(e.Context(), user(author), by(viewer), "", 200, e.clock())
	e.Must(err)
	return page.Posts
}

// settle applies the events of ended posts and follows marks until none is left.
func (e *env) settle() {
	e.Helper()
	for range 3 {
		for _, event := range e.Events(mayfly.Ends) {
			e.Must(e.feed.Ended(context.Background(), event, e.clock()))
		}
		for range 4 {
			e.pass(20 * time.Minute)
			e.Must(e.feed.FollowMarks(context.Background(), e.clock()))
		}
	}
}

// wantCounts wants the counts of posts to be those of their rows.
func (e *env) wantCounts(posts ...mayfly.ID) {
	e.Helper()
	differences, err := e.feed.VerifyCounts(context.Background(), e.clock(), posts...)
	e.Must(err)
	for _, d := range differences {
		e.Error(d)
	}
}

func TestALikeShowsOnTheNextReadAndIsCountedOnce(t *testing.T) {
	e := open(t)
	e.Must(e.feed.Begin(t.Context(), e.clock()))
	p := e.publish(feed.Draft{})
	id := p.Item.ID
	for range 2 {
		e.Must(e.feed.Like(t.Context(), id, user("ben"), e.clock()))
	}
	e.Must(e.feed.Like(t.Context(), id, user("ana"), e.clock()))
	if got := e.show(id, "ben"); !got.Liked || got.Reposted || e.show(id, "carl").Liked {
		t.Errorf("%+v", got)
	}
	e.Must(e.feed.CountChanged(t.Context(), e.clock()))
	if got := e.show(id, ""); got.Counts != (feed.Counts{Likes: 2}) {
		t.Errorf("%+v", got.Counts)
	}
	all, next, err := e.feed.LikedBy(t.Context(), id, by("carl"), "", 1, e.clock())
	if err != nil || len(all) != 1 || next == "" {
		t.Fatalf("%v, %q, %v", all, next, err)
	}
	rest, last, err := e.feed.LikedBy(t.Context(), id, by("carl"), next, 1, e.clock())
	if err != nil || len(rest) != 1 || last != "" || rest[0].User == all[0].User {
		t.Errorf("%v, %q, %v", rest, last, err)
	}
	e.Must(e.feed.Unlike(t.Context(), id, user("ben"), e.clock()))
	e.Must(e.feed.Unlike(t.Context(), id, user("carl"), e.clock()))
	if e.show(id, "ben").Liked {
		t.Error("a like that was taken back is shown")
	}
	e.settle()
	if got := e.show(id, ""); got.Counts != (feed.Counts{Likes: 1}) {
		t.Errorf("%+v", got.Counts)
	}
	e.wantCounts(id)
	e.Hold(id)
	e.feed = e.node()
	if err := e.feed.Like(t.Context(), id, user("ben"), e.clock()); err != mayfly.NotFound {
		t.Errorf("a held post is liked: %v", err)
	}
	if _, _, err := e.feed.LikedBy(t.Context(), id, by("ben"), "", 10, e.clock()); err != mayfly.NotFound {
		t.Errorf("who likes a held post: %v", err)
	}
	e.Must(e.feed.Unlike(t.Context(), id, user("ana"), e.clock())) // of what ana does not see any more
	if u := user("ana"); len(e.Partition(feed.Liked, string(u[:]))) != 1 {
		t.Error("the mirror of a like is gone at once: an erasure would not find a late write")
	}
}

func TestARepostIsAnEntryOfItsOwnOnce(t *testing.T) {
	e := open(t)
	e.Must(e.feed.Begin(t.Context(), e.clock()))
	other := e.node() // with its own cache
	id := e.publish(feed.Draft{}).Item.ID
	repost := func() feed.Post {
		t.Helper()
		e.pass(time.Millisecond)
		p, err := e.feed.Repost(t.Context(), id, user("ben"), e.clock)
		e.Must(err)
		return p
	}
	first := repost()
	if again := repost(); !again.Again || again.Item.ID != first.Item.ID || again.Kind != feed.Repost || again.Of == nil || again.Of.Item.ID != id {
		t.Errorf("%+v", again)
	}
	if p, err := e.feed.Repost(t.Context(), first.Item.ID, user("carl"), e.clock); err != nil || p.About != id {
		t.Errorf("a repost of a repost: %+v, %v", p, err)
	}
	if got := e.listOf("ben", "carl"); len(got) != 1 || !got[0].Of.Reposted {
		t.Errorf("%+v", got)
	}
	e.settle()
	if got := e.show(id, "ben"); got.Counts.Reposts != 2 || !got.Reposted {
		t.Errorf("%+v", got)
	}
	if _, err := other.Open(t.Context(), first.Item.ID, by("carl"), e.clock()); err != nil {
		t.Fatal(err)
	}
	for _, how := range []func() error{
		func() error { return e.feed.Unrepost(t.Context(), id, user("ben"), e.clock()) },
		func() error { return e.feed.Unrepost(t.Context(), first.Item.ID, user("ben"), e.clock()) },
		func() error { return e.feed.Delete(t.Context(), first.Item.ID, user("ben"), e.clock()) },
	} {
		e.Must(how())
		if _, err := other.Open(t.Context(), first.Item.ID, by("carl"), e.clock()); err != mayfly.NotFound {
			t.Errorf("on another node: %v", err)
		}
		if got := e.listOf("ben", "carl"); len(got) > 0 || e.show(id, "ben").Reposted {
			t.Errorf("a repost that was taken back is shown: %+v", got)
		}
		next := repost()
		if next.Item.ID == first.Item.ID || next.Again {
			t.Errorf("it comes back: %+v", next)
		}
		first = next
	}
	e.settle()
	e.wantCounts(id)
	if got := e.listOf("ben", "carl"); len(got) != 1 || got[0].Item.ID != first.Item.ID {
		t.Errorf("%+v", got)
	}
	e.Must(e.feed.Delete(t.Context(), id, user("ana"), e.clock()))
	if got := e.listOf("ben", "ben"); len(got) > 0 {
		t.Errorf("a repost outlives its post: %+v", got)
	}
	e.eraseNow(id)
	if u := user("ben"); len(e.Partition(feed.Reposted, string(u[:]))) > 0 {
		t.Error("the mirror of a repost outlives the post")
	}
	brief := e.publish(feed.Draft{Lifetime: "10m"})
	p, err := e.feed.Repost(t.Context(), brief.Item.ID, user("ben"), e.clock)
	if err != nil || p.Item.ID.Deadline() < brief.Item.ID.Deadline() {
		t.Errorf("%+v, %v", p, err)
	}
	e.at(brief.Item.ID.Deadline())
	if got := e.listOf("ben", "ben"); len(got) > 0 {
		t.Errorf("a repost outlives its post: %+v", got)
	}
}

// What a viewer may not see is not shown inside of what the viewer may see.
func TestAQuoteShowsNothingOfWhatItsViewerMayNotSee(t *testing.T) {
	e := open(t)
	id := e.publish(feed.Draft{Text: "secret words"}).Item.ID
	quote := e.publish(feed.Draft{Author: user("ben"), Quote: id})
	repost, err := e.feed.Repost(t.Context(), id, user("ben"), e.clock)
	e.Must(err)
	if p := e.show(quote.Item.ID, "carl"); p.Of == nil || p.Of.Body.Text != "secret words" {
		t.Fatalf("%+v", p)
	}
	e.relate(user("ana"), user("carl"), mayfly.Blocked)
	if p := e.show(quote.Item.ID, "carl"); p.Of != nil {
		t.Errorf("a quote shows what its viewer may not see: %+v", p.Of)
	}
	e.wantOpen(repost.Item.ID, mayfly.NotFound, "carl")
	if got := e.listOf("ben", "carl"); len(got) != 1 || got[0].Of != nil {
		t.Errorf("%+v", got)
	}
	if err := e.feed.Like(t.Context(), repost.Item.ID, user("carl"), e.clock()); err != mayfly.NotFound {
		t.Errorf("a repost of what its viewer may not see is liked: %v", err)
	}
}

func TestRepliesAreCountedWhileTheyAreThere(t *testing.T) {
	e := open(t)
	e.Must(e.feed.Begin(t.Context(), e.clock()))
	id := e.publish(feed.Draft{}).Item.ID
	var replies []feed.Post
	for n := range 6 {
		d := feed.Draft{Author: user(fmt.Sprint("reader ", n)), ReplyTo: id}
		if n == 0 {
			d.Lifetime = "10h"
		}
		replies = append(replies, e.publish(d))
	}
	e.Must(e.feed.Delete(t.Context(), replies[1].Item.ID, replies[1].Item.Owner, e.clock()))
	e.settle()
	if got := e.show(id, "").Counts.Replies; got != 5 {
		t.Errorf("%d replies, want 5", got)
	}
	brief := replies[0].Item.ID
	e.at(brief.Deadline())
	e.Sweep(e.clock(), 1, brief)
	e.Must(e.feed.Ended(t.Context(), mayfly.EventOf(e.Row(brief), mayfly.WasExpired), e.clock()))
	e.settle()
	if got := e.show(id, "").Counts.Replies; got != 4 {
		t.Errorf("%d replies, want 4", got)
	}
	e.wantCounts(id)
}

// did is what the model knows of a user and a post.
type did struct{ liked, reposted, doubtful bool }

// play makes random likes and reposts, and takes them back, as one user after another.
func (e *env) play(r *rand.Rand, f func() *feed.Feed, users, posts int, ids []mayfly.ID, crashed func()) map[[2]int]did {
	e.Helper()
	model := map[[2]int]did{}
	for range 30 {
		e.pass(time.Second)
		who, what := r.IntN(users), r.IntN(posts)
		at := [2]int{who, what}
		is, u, id := model[at], user(fmt.Sprint("reader ", who)), ids[what]
		var err error
		switch r.IntN(4) {
		case 0:
			is.liked, err = true, f().Like(context.Background(), id, u, e.clock())
		case 1:
			is.liked, err = false, f().Unlike(context.Background(), id, u, e.clock())
		case 2:
			is.reposted = true
			_, err = f().Repost(context.Background(), id, u, e.clock)
		default:
			is.reposted, err = false, f().Unrepost(context.Background(), id, u, e.clock())
		}
		if err != nil {
			is.doubtful = true
			crashed()
		}
		model[at] = is
	}
	return model
}

// wantModel wants every reader to see exactly what the model knows.
func (e *env) wantModel(model map[[2]int]did, ids []mayfly.ID) {
	e.Helper()
	for at, is := range model {
		name := fmt.Sprint("reader ", at[0])
		p, n := e.show(ids[at[1]], name), 0
		for _, entry := range e.listOf(name, "") {
			if entry.About == ids[at[1]] {
				n++
			}
		}
		if n > 1 || p.Reposted != (n == 1) {
			e.Errorf("%s has %d reposts of one post in the list, reposted is %t", name, n, p.Reposted)
		}
		if !is.doubtful && (p.Liked != is.liked || p.Reposted != is.reposted) {
			e.Errorf("%s likes %t, reposts %t; want %+v", name, p.Liked, p.Reposted, is)
		}
	}
	for _, id := range ids {
		likers, _, err := e.feed.LikedBy(context.Background(), id, by(""), "", 200, e.clock())
		e.Must(err)
		if got := e.show(id, "").Counts.Likes; got != len(likers) {
			e.Errorf("%d likes are counted, and %d users like it", got, len(likers))
		}
	}
	e.wantCounts(ids...)
}

// A process that ends at any write, with what it was writing done or not, or done
// later, leaves counts that are exact once no write can land any more.
func TestCountsAreExactAfterACrashAtEveryWrite(t *testing.T) {
	pace.Heavy(t, "a store for every crash, one goroutine at a time")
	r := fixture.Seeded(t)
	const posts = 2
	round := func(seed uint64, plan storetest.Plan) (calls []storetest.Call) {
		fixture.With(t, vfs.NewMem(), func(engine *fixture.Engine) {
			script := rand.New(rand.NewPCG(seed, 0))
			e := on(engine)
			e.Must(e.feed.Begin(context.Background(), e.clock()))
			var ids []mayfly.ID
			for range posts {
				ids = append(ids, e.publish(feed.Draft{}).Item.ID)
			}
			set, late := storetest.Prefix(e.Real, plan)
			broken := e.nodeOn(set)
			model := e.play(script, func() *feed.Feed { return broken }, 3, posts, ids, func() {
				late.Resume()
				if script.IntN(2) == 0 {
					_, err := late.Land(context.Background(), script)
					e.Must(err)
				}
				broken = e.nodeOn(set) // another process
			})
			_, err := late.LandAll(context.Background(), script)
			e.Must(err)
			e.settle()
			e.wantModel(model, ids)
			calls = late.Calls()
		})
		return calls
	}
	seed := r.Uint64()
	calls, crashes := round(seed, storetest.Pass), 0
	every := 4
	if pace.Long() {
		every = 1
	}
	for n := r.IntN(every); n < len(calls) && !t.Failed(); n += every {
		faults := storetest.Faults(calls[n])
		fault := faults[r.IntN(len(faults))]
		fault.Halts = r.IntN(2) == 0
		round(seed, storetest.FailNth(calls[n].N, fault))
		if crashes++; t.Failed() {
			t.Logf("call %+v, fault %+v", calls[n], fault)
		}
	}
	storetest.Proof(t, "counts of posts", "crash points", crashes)
	if crashes < 10 {
		t.Errorf("%d crashes prove little", crashes)
	}
}

// A process that ends right after any write of a like leaves a mark by which the next
// one counts it.
func TestALikeIsCountedWhereverItsProcessEnds(t *testing.T) {
	writes := 0
	for done := false; !done; writes++ {
		fixture.With(t, vfs.NewMem(), func(engine *fixture.Engine) {
			e := on(engine)
			e.Must(e.feed.Begin(context.Background(), e.clock()))
			id := e.publish(feed.Draft{}).Item.ID
			set, _ := storetest.Prefix(e.Real, storetest.FailNth(writes+1, storetest.Fault{Stage: 1, Silent: true, Halts: true}))
			done = e.nodeOn(set).Like(context.Background(), id, user("ben"), e.clock()) == nil
			e.settle()
			likers, _, err := e.feed.LikedBy(context.Background(), id, by(""), "", 10, e.clock())
			e.Must(err)
			if got := e.show(id, "").Counts.Likes; got != len(likers) || done && got != 1 {
				t.Errorf("the process ended after write %d: %d likes are counted, and %d users like it", writes+1, got, len(likers))
			}
		})
	}
	if writes < 4 { // the mark, the mirror, the row, and once without a crash
		t.Errorf("%d rounds prove little", writes)
	}
}

func TestSixtyFourWritersLeaveExactCounts(t *testing.T) {
	e, r := open(t), fixture.Seeded(t)
	e.Must(e.feed.Begin(t.Context(), e.clock()))
	ids := []mayfly.ID{e.publish(feed.Draft{}).Item.ID, e.publish(feed.Draft{Author: user("ben")}).Item.ID}
	nodes := []*feed.Feed{e.feed, e.node()}
	model := map[[2]int]did{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for who := range 64 {
		moves := make([]int, 12)
		for i := range moves {
			moves[i] = r.IntN(8)
		}
		all.Go(func() {
			u := user(fmt.Sprint("reader ", who))
			for n, move := range moves {
				id, f := ids[move&1], nodes[n%2]
				mu.Lock()
				is := model[[2]int{who, move & 1}]
				mu.Unlock()
				var err error
				switch move >> 1 {
				case 0:
					is.liked, err = true, f.Like(context.Background(), id, u, e.clock())
				case 1:
					is.liked, err = false, f.Unlike(context.Background(), id, u, e.clock())
				case 2:
					is.reposted = true
					_, err = f.Repost(context.Background(), id, u, e.clock)
				default:
					is.reposted, err = false, f.Unrepost(context.Background(), id, u, e.clock())
				}
				if err != nil {
					e.Error(err)
				}
				mu.Lock()
				model[[2]int{who, move & 1}] = is
				mu.Unlock()
				if who == 0 {
					if err := f.CountChanged(context.Background(), e.clock()); err != nil {
						e.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
	e.settle()
	e.wantModel(model, ids)
}

// The erasure of a user takes likes, reposts and replies out of others' posts and their
// counts, wherever it is stopped.
func TestTheErasureOfAUserIsCounted(t *testing.T) {
	e := open(t)
	e.Must(e.feed.Begin(t.Context(), e.clock()))
	id := e.publish(feed.Draft{}).Item.ID
	for _, name := range []string{"ben", "carl"} {
		e.Must(e.feed.Like(t.Context(), id, user(name), e.clock()))
		_, err := e.feed.Repost(t.Context(), id, user(name), e.clock)
		e.Must(err)
		e.publish(feed.Draft{Author: user(name), ReplyTo: id})
	}
	e.settle()
	if got := e.show(id, "").Counts; got != (feed.Counts{Replies: 2, Likes: 2, Reposts: 2}) {
		t.Fatalf("%+v", got)
	}
	stopped := mayfly.Errorf(mayfly.Unavailable, "stopped")
	for n := 1; ; n++ {
		calls := 0
		e.Hooks.Commit = func(_ context.Context, _ *store.Batch, do func() error) error {
			if calls++; calls > n {
				return stopped
			}
			return do()
		}
		_, err := e.feed.EraseUser(t.Context(), user("ben"), e.clock())
		e.Hooks.Commit = nil
		if err == nil {
			break
		}
		if !errors.Is(err, mayfly.Unavailable) || n > 50 {
			t.Fatal(n, err)
		}
	}
	if left, err := e.feed.LeftOf(t.Context(), user("ben")); err != nil || left > 0 || e.rowsOf("ben") > 0 {
		t.Errorf("%d rows are left, %v", left, err)
	}
	e.settle()
	if got := e.show(id, "").Counts; got != (feed.Counts{Replies: 1, Likes: 1, Reposts: 1}) {
		t.Errorf("%+v", got)
	}
	e.wantCounts(id)
	u := user("ben")
	for _, table := range []store.Table{feed.Liked, feed.Reposted} {
		if rows := e.Partition(table, string(u[:])); len(rows) > 0 {
			t.Errorf("%s: %d rows", table, len(rows))
		}
	}
	if names := slices.IndexFunc(e.listOf("carl", ""), func(p feed.Post) bool { return p.Kind == feed.Repost }); names < 0 {
		t.Error("another's repost is gone")
	}
}

// A process that ends between the birth of a repost and the row that names it leaves an
// item that no list shows. It is deleted when no write can land any more; a repost that
// is asked for again before that is the same, and after that another.
func TestARepostWhoseProcessEndsLeavesNothing(t *testing.T) {
	for name, again := range map[string]time.Duration{"never asked again": 0, "asked again at once": time.Second, "asked again later": 3 * time.Hour} {
		e := open(t)
		e.Must(e.feed.Begin(t.Context(), e.clock()))
		id := e.publish(feed.Draft{}).Item.ID
		stopped := mayfly.Errorf(mayfly.Unavailable, "stopped")
		e.Hooks.Swap = func(_ context.Context, table store.Table, _ store.Key, do fixture.Swap) (bool, []byte, error) {
			if table == feed.Reposted || table == feed.Reposts {
				return false, nil, stopped
			}
			return do()
		}
		if _, err := e.feed.Repost(t.Context(), id, user("ben"), e.clock); !errors.Is(err, mayfly.Unavailable) {
			t.Fatal(err)
		}
		e.Hooks.Swap = nil
		owned := e.Owned(user("ben"))
		if len(owned) != 1 || len(e.listOf("ben", "")) != 0 {
			t.Fatalf("%d items, %d posts are listed", len(owned), len(e.listOf("ben", "")))
		}
		left := owned[0]
		if again == time.Second {
			e.pass(again)
			p, err := e.feed.Repost(t.Context(), id, user("ben"), e.clock)
			if e.Must(err); p.Item.ID != left {
				t.Errorf("%s: %s, want %s", name, p.Item.ID, left)
			}
		}
		e.settle()
		if row := e.Row(left); (row.State == mayfly.Deleted) != (again != time.Second) {
			t.Errorf("%s: it is %s", name, row.State)
		}
		if again > time.Second {
			p, err := e.feed.Repost(t.Context(), id, user("ben"), e.clock)
			if e.Must(err); p.Item.ID == left {
				t.Errorf("%s: it is the deleted one", name)
			}
			e.settle()
		}
		want := 1
		if again == 0 {
			want = 0
		}
		if got := e.listOf("ben", ""); len(got) != want || e.show(id, "").Counts.Reposts != want {
			t.Errorf("%s: %d listed, %d counted", name, len(got), e.show(id, "").Counts.Reposts)
		}
		e.wantCounts(id)
	}
}
