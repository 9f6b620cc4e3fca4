package feed

import (
	"encoding/binary"
	"time"

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
	// Likes says who likes a post, and Liked what a user likes.
	Likes = store.DeclareTable(store.Declaration{
		Name: "likes", Number: 42, Purpose: "post and slice, user → since when the user likes it",
		Mode: store.Swapped, Erasure: store.PartitionIsItem, Slices: Slices, MayHave: isPost, ByUsers: true, Mirror: "liked", MirrorKey: userOfPost,
	})
	Liked = store.DeclareTable(store.Declaration{
		Name: "liked", Number: 43, Purpose: "user, post → that a row of likes names the user",
		Mode: store.Swapped, Erasure: store.PartitionIsUser, ErasedByPart: true, ByUsers: true, Mirror: "likes", MirrorKey: postOfUser,
	})
	// Reposts says who reposts a post by which item, and Reposted what a user reposts.
	Reposts = store.DeclareTable(store.Declaration{
		Name: "reposts", Number: 44, Purpose: "post and slice, user → the item of the repost",
		Mode: store.Swapped, Erasure: store.PartitionIsItem, Slices: Slices, MayHave: isPost, ByUsers: true, Mirror: "reposted", MirrorKey: userOfPost,
	})
	Reposted = store.DeclareTable(store.Declaration{
		Name: "reposted", Number: 45, Purpose: "user, post → that a row of reposts names the user",
		Mode: store.Swapped, Erasure: store.PartitionIsUser, ErasedByPart: true, ByUsers: true, Mirror: "reposts", MirrorKey: postOfUser,
	})
	// PostCounts holds the counts of a post, slice by slice.
	PostCounts = store.DeclareTable(store.Declaration{
		Name: "post_counts", Number: 46, Purpose: "post → replies, likes and reposts of each slice",
		Mode: store.Swapped, Erasure: store.PartitionIsItem, MayHave: isPost,
	})
	// Marks holds which slices are to be counted again. Minutes are removed once they
	// were followed.
	Marks = store.DeclareTable(store.Declaration{
		Name: "post_marks", Number: 47, Purpose: "minute, post and slice → that the slice is to be counted again; and the item of a repost → that it is to be looked at",
		Mode: store.Plain, Erasure: store.NamesItems, ByUsers: true,
	})
)

// Tables returns the tables that this package declares.
func Tables() []store.Table {
	return []store.Table{Posts, Replies, Likes, Liked, Reposts, Reposted, PostCounts, Marks}
}

// Slices is over how many partitions the replies, likes and reposts of one post are
// spread.
const Slices = 16

func isPost(item mayfly.Item) bool { return item.Product == mayfly.Post }

// sliceOf returns the slice that has what a user has done to any post: from the user's
// own bits, the same in every process (trap 3).
func sliceOf(user mayfly.UserID) int { return int(user[len(user)-1] % Slices) }

// userOfPost returns the key under the user of a reaction to a post.
func userOfPost(key store.Key) (store.Key, error) {
	if len(key.Partition) != len(mayfly.ID{})+1 || len(key.Clustering) != len(mayfly.UserID{}) {
		return store.Key{}, mayfly.Errorf(mayfly.Corrupt, "a reaction with a key of %d and %d bytes", len(key.Partition), len(key.Clustering))
	}
	return store.Key{Partition: key.Clustering, Clustering: key.Partition[:len(mayfly.ID{})]}, nil
}

// reactionKey returns the key under a post of what a user has done to it.
func reactionKey(post mayfly.ID, user mayfly.UserID) store.Key {
	return store.Key{Partition: store.SlicePartition(post, sliceOf(user)), Clustering: string(user[:])}
}

// reactedKey returns the key of the same under the user.
func reactedKey(post mayfly.ID, user mayfly.UserID) store.Key {
	return store.Key{Partition: string(user[:]), Clustering: string(post[:])}
}

// postOfUser returns the key under the post of a user's reaction.
func postOfUser(key store.Key) (store.Key, error) {
	if len(key.Partition) != len(mayfly.UserID{}) || len(key.Clustering) != len(mayfly.ID{}) {
		return store.Key{}, mayfly.Errorf(mayfly.Corrupt, "a reaction of a user with a key of %d and %d bytes", len(key.Partition), len(key.Clustering))
	}
	return reactionKey(mayfly.ID([]byte(key.Clustering)), mayfly.UserID([]byte(key.Partition))), nil
}

// month is a calendar month in UTC, counted from year 0.
type month uint16

func monthOf(at mayfly.Instant) month {
	t := at.Time().UTC()
	return month(t.Year()*12 + int(t.Month()) - 1)
}

// start returns the first instant of the month.
func (m month) start() mayfly.Instant {
	return mayfly.InstantOf(time.Date(int(m)/12, time.Month(m%12)+1, 1, 0, 0, 0, 0, time.UTC))
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
