package store

import "github.com/mayflyhq/mayfly"

// ViewSlices is over how many partitions the views of one story are spread, so
// that a story that everybody watches is not one partition.
const ViewSlices = 64

// ViewPartition is where slice n of the views of an item lies.
func ViewPartition(id mayfly.ID, n int) string { return string(append(id[:], byte(n))) }

// ViewKey is where it is said when user has seen an item. The slice is taken from
// the user's own bits: the same in every process (trap 3).
func ViewKey(id mayfly.ID, user mayfly.UserID) Key {
	return Key{Partition: ViewPartition(id, int(user[len(user)-1]%ViewSlices)), Clustering: string(user[:])}
}

// SeenKey is the other direction: where it is said that a user has seen id.
func SeenKey(user mayfly.UserID, id mayfly.ID) Key {
	return Key{Partition: string(user[:]), Clustering: string(id[:])}
}
