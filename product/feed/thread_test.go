package feed_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/product/feed"
	"github.com/mayflyhq/mayfly/test/fixture"
)

// thread reads all pages of a thread.
func (e *env) thread(id mayfly.ID, viewer string, limit int) (feed.Thread, error) {
	e.Helper()
	var all feed.Thread
	cursor := ""
	for page := range 1000 {
		got, err := e.feed.Thread(e.Context(), id, by(viewer), cursor, limit, e.clock())
		if err != nil {
			return all, err
		}
		if len(got.Replies) > limit || page > 0 && len(got.Ancestors) > 0 {
			e.Fatalf("%d replies on a page of %d, %d ancestors", len(got.Replies), limit, len(got.Ancestors))
		}
		if page == 0 {
			all = got
		} else {
			all.Replies = append(all.Replies, got.Replies...)
		}
		if cursor = got.Next; cursor == "" {
			return all, nil
		}
	}
	e.Fatal("the thread has no end")
	return all, nil
}

// A thread is what a plain walk over the posts finds: for every post and viewer exactly
// the ancestors and replies that the viewer may see, in their order, whatever is hidden
// or gone in between. No post is its own ancestor.
func TestAThreadIsExactForEveryViewer(t *testing.T) {
	e, r := open(t), fixture.Seeded(t)
	const dora = "dora" // blocks ben, and has a private account that carl follows
	authors, viewers := []string{"ana", "carl", dora}, []string{"", "ana", "ben", "carl", dora, "moderator"}
	for _, viewer := range viewers {
		e.relations[[2]mayfly.UserID{user(dora), by(viewer).User()}] = mayfly.Private
	}
	e.relate(user(dora), user("ben"), mayfly.Blocked)
	e.relate(user(dora), user("carl"), mayfly.Private|mayfly.Follower)
	e.relate(user(dora), user("ana"), mayfly.Private|mayfly.Follower)
	posts, parent := []feed.Post{e.publish(feed.Draft{})}, map[mayfly.ID]mayfly.ID{}
	line := posts[0]
	for n := range 120 {
		to := line // a long line, with branches and one wide place
		switch {
		case n%3 == 1:
			to = posts[r.IntN(len(posts))]
		case n%3 == 2:
			to = posts[0]
		}
		d := feed.Draft{Author: user(authors[r.IntN(len(authors))]), ReplyTo: to.Item.ID}
		if n%10 == 9 {
			d.Lifetime = "1h"
		}
		p := e.publish(d)
		parent[p.Item.ID] = to.Item.ID
		if posts = append(posts, p); to.Item.ID == line.Item.ID {
			line = p
		}
	}
	for n, p := range posts[1:] {
		switch n % 11 {
		case 4:
			e.Must(e.feed.Delete(t.Context(), p.Item.ID, p.Item.Owner, e.clock()))
		case 7:
			e.Hold(p.Item.ID)
		}
	}
	e.pass(2 * time.Hour)
	e.feed = e.node()
	tried, hidden, cut := 0, 0, 0
	for _, viewer := range viewers {
		visible := map[mayfly.ID]bool{}
		for _, p := range posts {
			_, err := e.feed.Open(t.Context(), p.Item.ID, by(viewer), e.clock())
			visible[p.Item.ID] = err == nil
		}
		for _, p := range posts {
			tried++
			id := p.Item.ID
			got, err := e.thread(id, viewer, 1+r.IntN(9))
			if !visible[id] {
				hidden++
				if _, want := e.feed.Open(t.Context(), id, by(viewer), e.clock()); err == nil || err != want {
					t.Errorf("%q: the thread of a post that is hidden: %v, want %v", viewer, err, want)
				}
				continue
			}
			var above, below []mayfly.ID
			for up := parent[id]; !up.IsZero(); up = parent[up] {
				above = slices.Insert(above, 0, up)
			}
			if len(above) > 20 {
				cut++
				above = append(above[:1], above[len(above)-19:]...)
			}
			for _, q := range posts { // in the order of their births
				if parent[q.Item.ID] == id && visible[q.Item.ID] {
					below = append(below, q.Item.ID)
				}
			}
			above = slices.DeleteFunc(above, func(id mayfly.ID) bool { return !visible[id] })
			if err != nil || got.Post.Item.ID != id || !slices.Equal(ids(got.Ancestors), above) || !slices.Equal(ids(got.Replies), below) || slices.Contains(above, id) {
				t.Errorf("%q, %s: %v; above %v, want %v; below %v, want %v", viewer, id, err, ids(got.Ancestors), above, ids(got.Replies), below)
			}
		}
	}
	t.Logf("%d threads, %d of hidden posts, %d with more ancestors than are shown", tried, hidden, cut)
	if tried < 700 || hidden < 100 || cut < 50 {
		t.Error("that is little")
	}
}

func TestAThreadGoesOnWithItsOwnCursorOnly(t *testing.T) {
	e := open(t)
	top := e.publish(feed.Draft{})
	var want []mayfly.ID
	for n := range 40 {
		want = append(want, e.publish(feed.Draft{Author: user(string(rune('a' + n))), ReplyTo: top.Item.ID}).Item.ID)
	}
	repost, err := e.feed.Repost(t.Context(), top.Item.ID, user("ben"), e.clock)
	e.Must(err)
	first, err := e.feed.Thread(t.Context(), repost.Item.ID, by(""), "", 7, e.clock()) // of a repost: of what it reposts
	if err != nil || first.Post.Item.ID != top.Item.ID || first.Next == "" || len(first.Ancestors) > 0 || !slices.Equal(ids(first.Replies), want[:7]) {
		t.Fatalf("%+v, %v", first, err)
	}
	late := e.publish(feed.Draft{Author: user("ben"), ReplyTo: top.Item.ID})
	e.Must(e.feed.Delete(t.Context(), want[6], user("g"), e.clock())) // where the page ended
	second, err := e.feed.Thread(t.Context(), top.Item.ID, by(""), first.Next, 100, e.clock())
	if err != nil || !slices.Equal(ids(second.Replies), append(want[7:len(want):len(want)], late.Item.ID)) {
		t.Errorf("%+v, %v", ids(second.Replies), err)
	}
	changed := []byte(first.Next)
	changed[3]++
	for name, c := range map[string]struct {
		id     mayfly.ID
		cursor string
	}{"changed": {top.Item.ID, string(changed)}, "of another thread": {want[0], first.Next}, "nonsense": {top.Item.ID, "nonsense"}} {
		if _, err := e.feed.Thread(t.Context(), c.id, by(""), c.cursor, 5, e.clock()); !errors.Is(err, mayfly.Invalid) {
			t.Errorf("a cursor that is %s: %v", name, err)
		}
	}
}

func TestAThreadIsWithoutWhomItsViewerBlocksOrMutes(t *testing.T) {
	e := open(t)
	top := e.publish(feed.Draft{Author: user("ana")})
	by1 := e.publish(feed.Draft{Author: user("carl"), ReplyTo: top.Item.ID})
	by2 := e.publish(feed.Draft{Author: user("dora"), ReplyTo: top.Item.ID})
	by3 := e.publish(feed.Draft{Author: user("ana"), ReplyTo: by1.Item.ID})
	want := func(id mayfly.ID, above, below []mayfly.ID) {
		t.Helper()
		got, err := e.thread(id, "ben", 5)
		if err != nil || !slices.Equal(ids(got.Ancestors), above) || !slices.Equal(ids(got.Replies), below) {
			t.Errorf("above %v, want %v; below %v, want %v; %v", ids(got.Ancestors), above, ids(got.Replies), below, err)
		}
	}
	want(top.Item.ID, nil, []mayfly.ID{by1.Item.ID, by2.Item.ID})
	e.relate(user("carl"), user("ben"), mayfly.Blocks)
	e.relate(user("dora"), user("ben"), mayfly.MutesPosts)
	want(top.Item.ID, nil, nil)
	want(by3.Item.ID, []mayfly.ID{top.Item.ID}, nil)
	e.relate(user("carl"), user("ben"), 0)
	want(top.Item.ID, nil, []mayfly.ID{by1.Item.ID})
	want(by3.Item.ID, []mayfly.ID{top.Item.ID, by1.Item.ID}, nil)
}
