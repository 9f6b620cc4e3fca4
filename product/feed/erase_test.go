package feed_test

import (
	"context"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/accounterase"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/product/feed"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/erasure"
	"github.com/mayflyhq/mayfly/test/fixture"
)

// accountEraser returns the eraser of accounts with what posts add to it.
func (e *env) accountEraser() *accounterase.Eraser {
	e.Helper()
	fx := &erasure.Fixture{Engine: e.Engine}
	fx.Now = e.clock()
	a := fx.Accounts()
	a.Add(accounterase.Part{Name: "posts", Erase: e.feed.EraseUser, Left: e.feed.LeftOf})
	return a
}

// belong gives a user posts of every kind, and makes others and the user do something to
// each other's; it returns a post of carl's that all have reacted to, and the user's own.
func (e *env) belong(name string) (shared mayfly.ID, own []mayfly.ID) {
	e.Helper()
	shared = e.publish(feed.Draft{Author: user("carl")}).Item.ID
	add := func(d feed.Draft) mayfly.ID {
		d.Author = user(name)
		own = append(own, e.publish(d).Item.ID)
		return own[len(own)-1]
	}
	first := add(feed.Draft{Media: media(fixture.Photo(e, 1), fixture.Photo(e, 2)), Key: "a key"})
	e.pass(40 * 24 * time.Hour) // another month
	add(feed.Draft{ReplyTo: shared})
	add(feed.Draft{Quote: shared})
	add(feed.Draft{Lifetime: "1h"})
	deleted := add(feed.Draft{ReplyTo: first})
	e.Must(e.feed.Delete(e.Context(), deleted, user(name), e.clock()))
	for _, who := range []string{name, "dora"} {
		for _, id := range []mayfly.ID{shared, first} {
			e.pass(time.Millisecond)
			e.Must(e.feed.Like(e.Context(), id, user(who), e.clock()))
			p, err := e.feed.Repost(e.Context(), id, user(who), e.clock)
			if e.Must(err); who == name {
				own = append(own, p.Item.ID)
			}
		}
	}
	e.publish(feed.Draft{Author: user("dora"), ReplyTo: shared})
	e.publish(feed.Draft{Author: user("dora"), ReplyTo: first})
	return shared, own
}

// wantNothingOf wants the scan to find nothing of a user, and no list, count or row of
// others to name the posts.
func (e *env) wantNothingOf(name string, shared mayfly.ID, own []mayfly.ID) {
	e.Helper()
	left, err := e.accountEraser().Scan(context.Background(), user(name))
	e.Must(err)
	if left.Count != 0 || left.Unowned != 0 {
		e.Errorf("%d references are left: %v", left.Count, left.Examples)
	}
	named := map[string]bool{}
	for _, id := range own {
		named[string(id[:])] = true
		for _, table := range []store.Table{feed.Replies, feed.Likes, feed.Reposts, feed.PostCounts} {
			for _, partition := range table.ItemPartitions(id) {
				if rows := e.Partition(table, partition); len(rows) > 0 {
					e.Errorf("%s: %d rows of an erased post", table, len(rows))
				}
			}
		}
	}
	for slice := range feed.Slices {
		for _, row := range e.Partition(feed.Replies, store.SlicePartition(shared, slice)) {
			if named[row.Clustering] {
				e.Error("an erased reply is listed")
			}
		}
	}
	u := user("dora")
	for _, table := range []store.Table{feed.Liked, feed.Reposted} {
		for _, row := range e.Partition(table, string(u[:])) {
			if named[row.Clustering] {
				e.Errorf("%s names an erased post", table)
			}
		}
	}
	if posts := e.listOf(name, "moderator"); len(posts) > 0 {
		e.Errorf("%d posts are listed", len(posts))
	}
	if got := e.show(shared, "").Counts; got != (feed.Counts{Replies: 1, Likes: 1, Reposts: 1}) {
		e.Errorf("%+v", got)
	}
	e.wantCounts(shared)
}

// Nothing of an erased user's posts is left, in the lists and counts of others neither:
// after the erasure, when the log is read again from its beginning, and when a backup
// from before is put back.
func TestNothingOfAnErasedUsersPostsIsLeft(t *testing.T) {
	e := open(t)
	e.Must(e.feed.Begin(t.Context(), e.clock()))
	shared, own := e.belong("ana")
	e.settle()
	before, err := e.accountEraser().Scan(t.Context(), user("ana"))
	if e.Must(err); before.Count < 20 {
		t.Fatalf("%d references are too few to erase", before.Count)
	}
	if got := e.show(shared, "").Counts; got != (feed.Counts{Replies: 2, Likes: 2, Reposts: 2}) {
		t.Fatalf("%+v", got)
	}
	_, err = e.accountEraser().Account(t.Context(), user("ana"), audit.Actor{Subject: "support"}, "asked to", e.clock())
	e.Must(err)
	e.feed = e.node()
	e.settle() // with all events
	e.wantNothingOf("ana", shared, own)
	for range 2 {
		for _, stream := range []mayfly.Stream{mayfly.Births, mayfly.Ends} {
			for _, event := range e.Events(stream) {
				e.Must(e.feed.Ended(t.Context(), event, e.clock()))
			}
		}
		e.settle()
		e.wantNothingOf("ana", shared, own)
	}

	old := open(t) // the store as it was before, beside the deletion ledger as it is
	old.Real.Deletions = e.Real.Deletions
	old.Must(old.feed.Begin(t.Context(), old.clock()))
	shared, own = old.belong("ana")
	old.settle()
	if n, err := old.accountEraser().Replay(t.Context(), old.clock()); err != nil || n != 1 {
		t.Fatalf("%d accounts, %v", n, err)
	}
	old.feed = old.node()
	old.settle()
	old.wantNothingOf("ana", shared, own)
}
