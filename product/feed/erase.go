package feed

import (
	"context"
	"fmt"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// erasePage is how many rows of a user are erased at once.
const erasePage = 500

// EraseUser erases what lists have of a user's posts, and what the user has done to
// posts (ST14); the posts themselves go with the items of the account. Each row goes
// before that which finds it. It returns how many rows it has erased.
func (f *Feed) EraseUser(ctx context.Context, user mayfly.UserID, now mayfly.Instant) (erased int, err error) {
	for _, k := range []reacts{likes(), reposts()} {
		n, err := f.eraseReactions(ctx, k, user, now)
		if erased += n; err != nil {
			return erased, fmt.Errorf("%s: %w", k.rows, err)
		}
	}
	months, err := f.o.Rows.Range(ctx, Posts, store.Range{Partition: string(user[:]), Limit: maxMonths})
	if err != nil {
		return 0, err
	}
	for _, m := range months {
		n, err := f.eraseMonth(ctx, user, string(user[:])+m.Clustering, now)
		if erased += n; err != nil {
			return erased, fmt.Errorf("posts of a month: %w", err)
		}
		var b store.Batch // last: it says that there are others
		b.Delete(Posts, store.Key{Partition: string(user[:]), Clustering: m.Clustering})
		if err := f.o.Writer.Commit(ctx, &b); err != nil {
			return erased, err
		}
		erased++
	}
	return erased, nil
}

func (f *Feed) eraseReactions(ctx context.Context, k reacts, user mayfly.UserID, now mayfly.Instant) (erased int, err error) {
	for {
		page, err := f.o.Rows.Range(ctx, k.back, store.Range{Partition: string(user[:]), Limit: erasePage})
		if err != nil || len(page) == 0 {
			return erased, err
		}
		for _, row := range page {
			if len(row.Clustering) != len(mayfly.ID{}) {
				return erased, mayfly.Errorf(mayfly.Corrupt, "a reaction of the user cannot be read: %x", row.Clustering)
			}
			post := mayfly.ID([]byte(row.Clustering))
			if err := f.mark(ctx, post, k.counted, sliceOf(user), now); err != nil {
				return erased, err
			}
			if err := f.dropReaction(ctx, k, post, user, false); err != nil {
				return erased, err
			}
			erased++
		}
	}
}

func (f *Feed) eraseMonth(ctx context.Context, user mayfly.UserID, partition string, now mayfly.Instant) (erased int, err error) {
	for {
		page, err := f.o.Rows.Range(ctx, Posts, store.Range{Partition: partition, Limit: erasePage})
		if err != nil || len(page) == 0 {
			return erased, err
		}
		var b store.Batch
		for _, row := range page {
			e, err := readEntry(row.Value)
			if err != nil || len(row.Clustering) != len(mayfly.ID{}) {
				return erased, mayfly.Errorf(mayfly.Corrupt, "an entry of the author index cannot be read: %x", row.Clustering)
			}
			if e.kind == Reply {
				if err := f.mark(ctx, e.about, countReplies, sliceOf(user), now); err != nil {
					return erased, err
				}
				b.Delete(Replies, replyKey(e.about, mayfly.ID([]byte(row.Clustering)), user))
			}
		}
		b.Then() // the entry tells where the reply is listed
		for _, row := range page {
			b.Delete(Posts, store.Key{Partition: partition, Clustering: row.Clustering})
		}
		if err := f.o.Writer.Commit(ctx, &b); err != nil {
			return erased, err
		}
		erased += len(page)
	}
}

// The months in which LeftOf looks for posts: no id that this code made is older.
const (
	firstMonth month = 2020 * 12
	lastMonth  month = 2100 * 12
)

// LeftOf counts what EraseUser would erase, and months of which it would not know.
func (f *Feed) LeftOf(ctx context.Context, user mayfly.UserID) (left int, err error) {
	for m := firstMonth; m < lastMonth; m++ {
		rows, err := f.o.Rows.Range(ctx, Posts, store.Range{Partition: monthPartition(user, m), Limit: erasePage})
		if err != nil {
			return left, err
		}
		left += len(rows)
	}
	return left, nil
}
