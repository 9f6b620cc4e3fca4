package feed

import (
	"context"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// A post that is born held waits for a moderator (L16). Its rows in lists are there from
// its birth, and the gate decides whether they show it; only its count as a reply waits
// for its release.

// waits reports whether an item is held since its birth.
func waits(item mayfly.Item) bool { return item.Held && item.Hold == mayfly.Stamp{} }

// bornHeld is the second byte of a row of Replies of a reply that was born held.
const bornHeld = 1

func replyValue(item mayfly.Item) []byte {
	if item.Held {
		return []byte{contentFormat, bornHeld}
	}
	return []byte{contentFormat}
}

// waiting counts the replies of a page that wait for a moderator.
func (f *Feed) waiting(ctx context.Context, page []store.Row) (n int, err error) {
	for _, row := range page {
		if len(row.Value) != 2 || row.Value[1] != bornHeld {
			continue
		}
		item, found, err := f.o.Erase.Row(ctx, mayfly.ID([]byte(row.Clustering)))
		if err != nil {
			return n, err
		}
		if found && waits(item) {
			n++
		}
	}
	return n, nil
}

// lookAgainEvery is after how many minutes a slice with waiting replies is counted again,
// in case the process that released them did not come to it. It is a multiple of them, so
// that a slice has one such mark.
const lookAgainEvery = 60

func (f *Feed) lookAgain(ctx context.Context, s sliceCount, now mayfly.Instant) error {
	return f.markAt(ctx, s.post, s.what, int(s.slice), (now.Minute()/lookAgainEvery+2)*lookAgainEvery)
}

// Released counts a reply whose hold has ended. Without it the count follows within two
// hours.
func (f *Feed) Released(ctx context.Context, item mayfly.Item, now mayfly.Instant) error {
	found, err := f.o.Rows.Get(ctx, Posts, postKey(item.Owner, item.ID))
	if err != nil || found[0] == nil {
		return err
	}
	e, err := readEntry(found[0])
	if err != nil || e.kind != Reply {
		return err
	}
	err = f.mark(ctx, e.about, countReplies, sliceOf(item.Owner), now)
	f.changed(e.about, countReplies, sliceOf(item.Owner))
	return err
}
