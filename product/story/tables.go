package story

import (
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

var (
	// Views says who has seen a story. Its rows are split over ViewSlices partitions,
	// so that a story that many users watch is not one partition.
	Views = store.DeclareTable(store.Declaration{
		Name: "views", Number: 16, Purpose: "story and slice, viewer → when it was seen",
		Mode: store.Plain, Erasure: store.PartitionIsItem, TimeToLive: viewsLive, Slices: ViewSlices, MayHave: mayHaveViews,
		ByUsers: true, Mirror: "seen", MirrorKey: seenOfView,
	})
	// Seen is the other direction: what a user has seen.
	Seen = store.DeclareTable(store.Declaration{
		Name: "seen", Number: 17, Purpose: "viewer, story → when it was seen",
		Mode: store.Plain, Erasure: store.PartitionIsUser, TimeToLive: viewsLive, ByUsers: true, Mirror: "views", MirrorKey: viewOfSeen,
	})
	// ViewCounts holds how many users have seen a story: a row for each node, which
	// counts the views that it records, and later one row with the final count.
	ViewCounts = store.DeclareTable(store.Declaration{
		Name: "view_counts", Number: 23, Purpose: "story, node → views counted there; story alone → the final count",
		Mode: store.Plain, Erasure: store.PartitionIsItem, MayHave: isStory,
	})
)

// Tables returns the tables that this package declares.
func Tables() []store.Table { return []store.Table{Views, Seen, ViewCounts} }

const (
	// ViewSlices is over how many partitions the views of one story are spread.
	ViewSlices = 64
	// viewsLive is about how long a view is stored by default: two days from the birth
	// of the story, and viewsUncounted.
	viewsLive = 48*time.Hour + viewsUncounted
	// viewsOver is how long after its end a story has no views left: many times what
	// views are kept for.
	viewsOver = 30 * 24 * time.Hour
)

func isStory(item mayfly.Item) bool { return item.Product == mayfly.Story }

// mayHaveViews reports whether the item can have views. Only stories have any, and
// one that was deleted long after its end has none left.
func mayHaveViews(item mayfly.Item) bool {
	return isStory(item) && (!item.ID.Expires() || item.Changed <= item.End().Add(viewsOver))
}

// ViewKey returns the key of a user's view of an item. The slice is taken from the
// user's own bits: the same in every process (trap 3).
func ViewKey(id mayfly.ID, user mayfly.UserID) store.Key {
	return store.Key{Partition: store.SlicePartition(id, int(user[len(user)-1]%ViewSlices)), Clustering: string(user[:])}
}

// viewCountKey returns the key of a node's count; the final count has no node.
func viewCountKey(id mayfly.ID, node string) store.Key {
	return store.Key{Partition: string(id[:]), Clustering: node}
}

// SeenKey returns the key of the row that says that a user has seen id.
func SeenKey(user mayfly.UserID, id mayfly.ID) store.Key {
	return store.Key{Partition: string(user[:]), Clustering: string(id[:])}
}

func viewOfSeen(key store.Key) (store.Key, error) {
	if len(key.Partition) != len(mayfly.UserID{}) || len(key.Clustering) != len(mayfly.ID{}) {
		return store.Key{}, mayfly.Errorf(mayfly.Corrupt, "seen: a key of %d and %d bytes", len(key.Partition), len(key.Clustering))
	}
	return ViewKey(mayfly.ID([]byte(key.Clustering)), mayfly.UserID([]byte(key.Partition))), nil
}

func seenOfView(key store.Key) (store.Key, error) {
	if len(key.Partition) != len(mayfly.ID{})+1 || len(key.Clustering) != len(mayfly.UserID{}) {
		return store.Key{}, mayfly.Errorf(mayfly.Corrupt, "views: a key of %d and %d bytes", len(key.Partition), len(key.Clustering))
	}
	return SeenKey(mayfly.UserID([]byte(key.Clustering)), mayfly.ID([]byte(key.Partition[:16]))), nil
}
