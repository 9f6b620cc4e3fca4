package feed

import (
	"encoding/binary"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

var (
	// Posts is the author index: the posts of a user by month, and under the user alone
	// the months that have any. Its rows are views: whether a post is shown is judged
	// when it is read.
	Posts = store.DeclareTable(store.Declaration{
		Name: "posts", Number: 40, Purpose: "user → months with posts; user and month, post → what it is, what it replies to",
		Mode: store.Plain, Erasure: store.PartitionIsUser, ErasedByPart: true, ByUsers: true,
	})
	// Replies says which posts reply to a post. Its rows are views, too.
	Replies = store.DeclareTable(store.Declaration{
		Name: "replies", Number: 41, Purpose: "post and slice, reply → nothing more",
		Mode: store.Plain, Erasure: store.PartitionIsItem, Slices: Slices, MayHave: isPost, ByUsers: true,
	})
)

// Tables returns the tables that this package declares.
func Tables() []store.Table { return []store.Table{Posts, Replies} }

// Slices is over how many partitions the replies, likes and reposts of one post are
// spread.
const Slices = 16

func isPost(item mayfly.Item) bool { return item.Product == mayfly.Post }

// sliceOf returns the slice that has what a user has done to any post: from the user's
// own bits, the same in every process (trap 3).
func sliceOf(user mayfly.UserID) int { return int(user[len(user)-1] % Slices) }

// month is a calendar month in UTC, counted from year 0.
type month uint16

func monthOf(at mayfly.Instant) month {
	t := at.Time().UTC()
	return month(t.Year()*12 + int(t.Month()) - 1)
}

func (m month) bytes() string { return string(binary.BigEndian.AppendUint16(nil, uint16(m))) }

// monthPartition returns the partition of Posts with a user's posts of a month.
func monthPartition(user mayfly.UserID, m month) string { return string(user[:]) + m.bytes() }

// postKey returns the key of a post in the author index.
func postKey(user mayfly.UserID, id mayfly.ID) store.Key {
	return store.Key{Partition: monthPartition(user, monthOf(id.Birth())), Clustering: string(id[:])}
}

func replyKey(to mayfly.ID, id mayfly.ID, author mayfly.UserID) store.Key {
	return store.Key{Partition: store.SlicePartition(to, sliceOf(author)), Clustering: string(id[:])}
}
