package feed

import (
	"context"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// Ended takes a post that has ended out of the lists and counts of other posts, and out
// of its author's. A reader of the log calls it for every event; it may be repeated. No
// list would show the post without it.
func (f *Feed) Ended(ctx context.Context, e mayfly.Event, now mayfly.Instant) error {
	if e.Product != mayfly.Post || e.Verb != mayfly.WasDeleted && e.Verb != mayfly.WasExpired {
		return nil
	}
	key := postKey(e.Owner, e.ID)
	found, err := f.o.Rows.Get(ctx, Posts, key)
	if err != nil || found[0] == nil {
		return err
	}
	was, err := readEntry(found[0])
	if err != nil {
		return err
	}
	var b store.Batch
	switch was.kind {
	case Reply:
		if err := f.mark(ctx, was.about, countReplies, sliceOf(e.Owner), now); err != nil {
			return err
		}
		b.Delete(Replies, replyKey(was.about, e.ID, e.Owner))
		b.Then() // the entry tells where the reply is listed
	case Repost:
		named, err := f.reaction(ctx, reposts(), was.about, e.Owner)
		if err == nil && named.live && named.item == e.ID {
			_, err = f.takeBack(ctx, reposts(), was.about, e.Owner, now)
		}
		if err != nil {
			return err
		}
	}
	b.Delete(Posts, key)
	if err := f.o.Writer.Commit(ctx, &b); err != nil {
		return err
	}
	if was.kind == Reply {
		f.changed(was.about, countReplies, sliceOf(e.Owner))
	}
	return nil
}
