package feed_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/hydrate"
	"github.com/mayflyhq/mayfly/product/feed"
	"github.com/mayflyhq/mayfly/product/feed/text"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/fixture"
)

func media(all ...[]byte) func(func(io.Reader, error) bool) {
	return func(yield func(io.Reader, error) bool) {
		for _, m := range all {
			if !yield(bytes.NewReader(m), nil) {
				return
			}
		}
	}
}

// A post that never expires is served for good, by everyone's view, until its author
// deletes it, and nothing of it is left when its bytes are erased.
func TestAPostThatNeverExpiresServesUntilItIsDeleted(t *testing.T) {
	e := open(t)
	photo := fixture.Photo(t, 7)
	p := e.publish(feed.Draft{Text: "@ben at the #sea, https://example.org", Media: media(photo, photo)})
	if p.Item.ID.Expires() || p.Item.Fate != mayfly.Purge || p.Kind != feed.Original || p.Item.Media != 2 || len(p.Entities) != 3 {
		t.Fatalf("%+v", p)
	}
	e.pass(90 * 365 * 24 * time.Hour)
	for _, viewer := range []string{"", "ana", "ben", "moderator"} {
		got, err := e.feed.Open(t.Context(), p.Item.ID, by(viewer), e.clock())
		if err != nil || got.Body.Text != "@ben at the #sea, https://example.org" || !slices.Equal(got.Entities, text.Parse(got.Body.Text)) {
			t.Errorf("%q: %+v, %v", viewer, got, err)
		}
		for _, object := range []hydrate.Object{{}, {Medium: 1}, {Longest: 320}} {
			_, m, err := e.feed.Medium(t.Context(), p.Item.ID, by(viewer), object, e.clock())
			e.Must(err)
			if _, err := io.Copy(io.Discard, m); err != nil {
				t.Errorf("%q, %s: %v", viewer, object, err)
			}
			e.Must(m.Close())
		}
	}
	if _, _, err := e.feed.Medium(t.Context(), p.Item.ID, by("ben"), hydrate.Object{Medium: 2}, e.clock()); err != mayfly.NotFound {
		t.Errorf("a medium that it does not have: %v", err)
	}
	if err := e.feed.Delete(t.Context(), p.Item.ID, user("ben"), e.clock()); err != mayfly.NotFound {
		t.Errorf("another user deletes it: %v", err)
	}
	other := e.node() // with its own cache
	if _, err := other.Open(t.Context(), p.Item.ID, by("ben"), e.clock()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		e.Must(e.feed.Delete(t.Context(), p.Item.ID, user("ana"), e.clock()))
	}
	e.wantOpen(p.Item.ID, mayfly.NotFound, "", "ana", "ben", "moderator")
	if _, err := other.Open(t.Context(), p.Item.ID, by("ben"), e.clock()); err != mayfly.NotFound {
		t.Errorf("on another node: %v", err)
	}
	e.eraseNow(p.Item.ID)
	if n := len(e.Objects(e.Real.Hot)); n > 0 || e.HasBody(p.Item.ID) {
		t.Errorf("%d objects are left", n)
	}
}

func TestAPostWithALifetimeIsGoneForEveryoneAtItsDeadline(t *testing.T) {
	e := open(t)
	p := e.publish(feed.Draft{Lifetime: "90m"})
	end := p.Item.ID.Deadline()
	e.at(end - 1)
	e.wantOpen(p.Item.ID, nil, "", "ana", "ben", "moderator")
	e.at(end)
	e.wantOpen(p.Item.ID, mayfly.Gone, "", "ana", "ben", "moderator")
	if page, err := e.feed.ByAuthor(t.Context(), user("ana"), by("ana"), "", 10, e.clock()); err != nil || len(page.Posts) > 0 {
		t.Errorf("%+v, %v", page, err)
	}
	if err := e.feed.Delete(t.Context(), p.Item.ID, user("ana"), e.clock()); err != mayfly.Gone {
		t.Errorf("deleted after its end: %v", err)
	}
}

func TestWhatIsNoPostIsRefusedAndLeavesNothing(t *testing.T) {
	e := open(t)
	story := e.Engine.Publish(e.Draft(), e.clock(), "media")
	for name, c := range map[string]struct {
		draft feed.Draft
		want  mayfly.Kind
	}{
		"nothing":               {feed.Draft{}, mayfly.Invalid},
		"only white space":      {feed.Draft{Text: " \n\u202e "}, mayfly.Invalid},
		"281 characters":        {feed.Draft{Text: strings.Repeat("ä", 281)}, mayfly.Invalid},
		"4 MB of marks":         {feed.Draft{Text: strings.Repeat("\u0301", 2<<20)}, mayfly.TooLarge},
		"a NUL":                 {feed.Draft{Text: "a\x00"}, mayfly.Invalid},
		"five media":            {feed.Draft{Text: "sea", Media: media(fixture.Photo(t, 1), fixture.Photo(t, 2), fixture.Photo(t, 3), fixture.Photo(t, 4), fixture.Photo(t, 5))}, mayfly.Invalid},
		"a text as a medium":    {feed.Draft{Text: "sea", Media: media([]byte("no picture"))}, mayfly.Unsupported},
		"no media, no text":     {feed.Draft{Media: media()}, mayfly.Invalid},
		"a reply and a quote":   {feed.Draft{Text: "sea", ReplyTo: story.ID, Quote: story.ID}, mayfly.Invalid},
		"a reply to a story":    {feed.Draft{Text: "sea", ReplyTo: story.ID}, mayfly.NotFound},
		"an unknown upload":     {feed.Draft{Text: "sea", Upload: story.ID}, mayfly.NotFound},
		"too short":             {feed.Draft{Text: "sea", Lifetime: "1s"}, mayfly.Invalid},
		"too long":              {feed.Draft{Text: "sea", Lifetime: "1000d"}, mayfly.Invalid},
		"no lifetime":           {feed.Draft{Text: "sea", Lifetime: "soon"}, mayfly.Invalid},
		"a key of another kind": {feed.Draft{Text: "sea", Key: "repost:1"}, mayfly.Invalid},
	} {
		c.draft.Author = user("ben")
		if _, err := e.feed.Publish(t.Context(), c.draft, e.clock); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if _, err := e.feed.Publish(t.Context(), feed.Draft{Text: "sea"}, e.clock); !errors.Is(err, mayfly.Unauthenticated) {
		t.Errorf("without an author: %v", err)
	}
	if n := len(e.Owned(user("ben"))) + e.rowsOf("ben") + len(e.Objects(e.Real.Hot)) - 1; n != 0 {
		t.Errorf("%d rows and objects are left", n)
	}
	if _, err := e.feed.Open(t.Context(), story.ID, by("ana"), e.clock()); err != mayfly.NotFound {
		t.Errorf("a story is opened as a post: %v", err)
	}
}

// What an author may not see does not exist for a reply or a quote, whatever the
// reason, and nothing is written of it. A post cannot name itself, nor what comes after
// it: so there is no cycle.
func TestAReplyToWhatItsAuthorMayNotSeeIsRefused(t *testing.T) {
	e := open(t)
	seen, deleted, held, brief := e.publish(feed.Draft{}), e.publish(feed.Draft{}), e.publish(feed.Draft{}), e.publish(feed.Draft{Lifetime: "1m"})
	blocked := e.publish(feed.Draft{Author: user("carl")})
	e.relate(user("carl"), user("ben"), mayfly.Blocked)
	e.Must(e.feed.Delete(t.Context(), deleted.Item.ID, user("ana"), e.clock()))
	e.Hold(held.Item.ID)
	never, err := mayfly.NewID(e.clock(), mayfly.Never, 7, 9)
	e.Must(err)
	e.pass(time.Minute)
	e.feed = e.node() // that has cached nothing
	for name, c := range map[string]struct {
		id   mayfly.ID
		want mayfly.Kind
	}{
		"deleted": {deleted.Item.ID, mayfly.NotFound}, "held": {held.Item.ID, mayfly.NotFound}, "blocked": {blocked.Item.ID, mayfly.NotFound},
		"never was": {never, mayfly.NotFound}, "ended": {brief.Item.ID, mayfly.Gone},
	} {
		for _, d := range []feed.Draft{{ReplyTo: c.id}, {Quote: c.id}} {
			d.Author, d.Text = user("ben"), "sea"
			_, err := e.feed.Publish(t.Context(), d, e.clock)
			if !errors.Is(err, c.want) || strings.Contains(err.Error(), "sea") {
				t.Errorf("%s: %v, want %v", name, err, c.want)
			}
		}
		for slice := range feed.Slices {
			if rows := e.Partition(feed.Replies, store.SlicePartition(c.id, slice)); len(rows) > 0 {
				t.Errorf("%s: a reply is listed", name)
			}
		}
	}
	if n := len(e.Owned(user("ben"))) + e.rowsOf("ben"); n > 0 {
		t.Errorf("%d rows are left", n)
	}
	itself := e.publish(feed.Draft{Author: user("ben"), Key: "k"})
	if _, err := e.feed.Publish(t.Context(), feed.Draft{Author: user("ben"), Text: "sea", Key: "k", ReplyTo: itself.Item.ID}, e.clock); !errors.Is(err, mayfly.Conflict) {
		t.Errorf("a reply to itself: %v", err)
	}
	reply := e.publish(feed.Draft{Author: user("ben"), ReplyTo: seen.Item.ID})
	second := e.publish(feed.Draft{Author: user("ana"), ReplyTo: reply.Item.ID})
	quote := e.publish(feed.Draft{Author: user("ben"), Quote: second.Item.ID})
	if reply.Root != seen.Item.ID || second.Root != seen.Item.ID || second.About != reply.Item.ID || quote.Of == nil || quote.Of.Item.ID != second.Item.ID {
		t.Errorf("%+v, %+v, %+v", reply, second, quote)
	}
	e.Must(e.feed.Delete(t.Context(), second.Item.ID, user("ana"), e.clock()))
	if p, err := e.feed.Open(t.Context(), quote.Item.ID, by(""), e.clock()); err != nil || p.Of != nil || p.About != second.Item.ID {
		t.Errorf("a quote of a deleted post: %+v, %v", p, err)
	}
}

func TestARepeatedKeyIsTheSamePost(t *testing.T) {
	e := open(t)
	to := e.publish(feed.Draft{Author: user("ben")})
	d := feed.Draft{Author: user("ana"), Text: "sea", Key: "k", ReplyTo: to.Item.ID}
	first := e.publish(d)
	if again := e.publish(d); !again.Again || again.Item.ID != first.Item.ID {
		t.Errorf("%+v", again)
	}
	e.Must(e.feed.Delete(t.Context(), to.Item.ID, user("ben"), e.clock()))
	if again := e.publish(d); !again.Again || again.Item.ID != first.Item.ID {
		t.Errorf("what it replies to is deleted: %+v", again)
	}
	if n := e.rowsOf("ana"); n != 2 {
		t.Errorf("%d rows in the author index, want a month and a post", n)
	}
}

// The author page has exactly the posts that its viewer may see, newest first, in pages
// that stay where they are while others are published, over months.
func TestTheAuthorPageIsExactInPages(t *testing.T) {
	e, r := open(t), fixture.Seeded(t)
	var want []mayfly.ID // newest first, as others see it
	var brief []mayfly.ID
	for n := range 150 {
		e.pass(time.Duration(r.IntN(5*24)) * time.Hour)
		d := feed.Draft{}
		if n%7 == 3 {
			d.Lifetime = "1h"
		}
		p := e.publish(d)
		switch {
		case n%7 == 3:
			brief = append(brief, p.Item.ID)
		case n%11 == 5:
			e.Must(e.feed.Delete(t.Context(), p.Item.ID, user("ana"), e.clock()))
		case n%13 == 6:
			e.Hold(p.Item.ID)
		default:
			want = slices.Insert(want, 0, p.Item.ID)
		}
	}
	e.publish(feed.Draft{Author: user("ben")})
	e.pass(2 * time.Hour)
	e.feed = e.node()
	for _, limit := range []int{1, 7, 64, 200} {
		var got []mayfly.ID
		cursor, pages := "", 0
		for {
			page, err := e.feed.ByAuthor(t.Context(), user("ana"), by("ben"), cursor, limit, e.clock())
			e.Must(err)
			if len(page.Posts) > limit {
				t.Fatalf("%d posts on a page of %d", len(page.Posts), limit)
			}
			got = append(got, ids(page.Posts)...)
			if pages++; page.Next == "" || pages > 1000 {
				break
			}
			cursor = page.Next
		}
		if !slices.Equal(got, want) {
			t.Errorf("in pages of %d: %d posts, want %d", limit, len(got), len(want))
		}
	}
	first, err := e.feed.ByAuthor(t.Context(), user("ana"), by(""), "", 5, e.clock())
	e.Must(err)
	e.publish(feed.Draft{})
	second, err := e.feed.ByAuthor(t.Context(), user("ana"), by(""), first.Next, 5, e.clock())
	if err != nil || !slices.Equal(ids(second.Posts), want[5:10]) {
		t.Errorf("the second page has moved: %v", err)
	}
	e.relate(user("ana"), user("ben"), mayfly.Blocked)
	for name, c := range map[string]struct{ author, viewer, cursor string }{
		"blocked": {"ana", "ben", ""}, "of no user": {"dora", "ben", ""},
	} {
		if page, err := e.feed.ByAuthor(t.Context(), user(c.author), by(c.viewer), "", 5, e.clock()); err != nil || len(page.Posts) > 0 {
			t.Errorf("%s: %+v, %v", name, page, err)
		}
	}
	changed := []byte(first.Next)
	changed[30]++
	for name, c := range map[string]struct{ author, cursor string }{
		"changed": {"ana", string(changed)}, "of another list": {"ben", first.Next}, "an id": {"ana", want[5].String()}, "long": {"ana", first.Next + "AAAA"},
	} {
		if _, err := e.feed.ByAuthor(t.Context(), user(c.author), by(""), c.cursor, 5, e.clock()); !errors.Is(err, mayfly.Invalid) {
			t.Errorf("a cursor that is %s: %v", name, err)
		}
	}
	if len(brief) == 0 || len(want) < 50 {
		t.Errorf("%d posts prove little", len(want))
	}
}

func TestABlockedHostIsRefused(t *testing.T) {
	path := t.TempDir() + "/hosts"
	e := open(t, func(o *feed.Options) {
		if err := os.WriteFile(path, []byte("evil.example\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		var err error
		if o.Blocked, err = text.OpenBlocklist(path, func(error) {}); err != nil {
			t.Fatal(err)
		}
	})
	if _, err := e.feed.Publish(t.Context(), feed.Draft{Author: user("ana"), Text: "see https://www.evil.example/x"}, e.clock); !errors.Is(err, mayfly.Invalid) {
		t.Errorf("%v", err)
	}
	e.publish(feed.Draft{Text: "see https://good.example/evil"})
}

// The page of an author of whom its viewer may see nothing is made by the same reads as
// that of a user who never was.
func TestThePageOfAnAuthorWhoHidesCostsThatOfNoUser(t *testing.T) {
	e := open(t)
	for range 100 {
		e.publish(feed.Draft{})
		e.pass(24 * time.Hour)
	}
	var reads []string
	e.Hooks.Range = func(_ context.Context, table store.Table, do func() ([]store.Row, error)) ([]store.Row, error) {
		reads = append(reads, "range "+table.String())
		return do()
	}
	e.Hooks.RowsGet = func(_ context.Context, table store.Table, do func() ([][]byte, error)) ([][]byte, error) {
		reads = append(reads, "get "+table.String())
		return do()
	}
	e.Hooks.LedgerGet = func(_ context.Context, ids []mayfly.ID, do func() ([]store.Found, error)) ([]store.Found, error) {
		reads = append(reads, "rows")
		return do()
	}
	of := func(author, viewer string) []string {
		e.feed = e.node() // that has cached nothing
		reads = nil
		e.listOf(author, viewer)
		return reads
	}
	for viewer, relation := range map[string]mayfly.Relation{"ben": mayfly.Blocked, "carl": mayfly.Private, "": mayfly.Private} {
		e.relations[[2]mayfly.UserID{user("ana"), by(viewer).User()}] = relation
		if hidden, none := of("ana", viewer), of("dora", viewer); !slices.Equal(hidden, none) || len(none) == 0 {
			t.Errorf("%q: %v, of no user %v", viewer, hidden, none)
		}
	}
	e.relations[[2]mayfly.UserID{user("ana"), user("ben")}] = mayfly.Private | mayfly.Follower
	for _, viewer := range []string{"ben", "ana", "moderator"} {
		if seen, none := of("ana", viewer), of("dora", viewer); len(seen) <= len(none) {
			t.Errorf("%q: %v, of no user %v", viewer, seen, none)
		}
	}
}
