package kv

import (
	"hash/fnv"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

var (
	// Namespaces holds the namespaces by name. A row names no user: who owns it is in
	// Owned, and erasing the owner's account removes both.
	Namespaces = store.DeclareTable(store.Declaration{
		Name: "kv_namespaces", Number: 31, Purpose: "slice of the names, name → store name, settings, hashes of keys",
		Mode: store.Swapped, Erasure: store.NoUser, ByUsers: true,
	})
	// Owned holds which namespaces a user has made or is making. Only this package removes
	// its rows, with their namespaces: another eraser would leave a namespace without an
	// owner that was made meanwhile.
	Owned = store.DeclareTable(store.Declaration{
		Name: "kv_owned", Number: 32, Purpose: "user, name of a namespace → its store name",
		Mode: store.Swapped, Erasure: store.PartitionIsUser, ErasedByPart: true, ByUsers: true,
	})
	// Removed holds namespaces that were removed a short time ago, with their owner: what
	// another node has written since is removed by a second pass (Tidy).
	Removed = store.DeclareTable(store.Declaration{
		Name: "kv_removed", Number: 33, Purpose: "store name of a removed namespace → its mode and owner, for about a minute",
		Mode: store.Swapped, Erasure: store.Kept,
	})
)

// Tables returns the tables that this package declares.
func Tables() []store.Table { return []store.Table{Namespaces, Owned, Removed} }

// nameSlices is into how many partitions the names are split.
const nameSlices = 16

// namespaceKey returns the key of the row of a namespace.
func namespaceKey(name string) store.Key {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	return store.Key{Partition: slicePartition(int(h.Sum32() % nameSlices)), Clustering: name}
}

func slicePartition(n int) string { return string([]byte{'n', byte(n)}) }

// removedPartition is the one partition of Removed.
const removedPartition = "r"

func removedKey(space string) store.Key {
	return store.Key{Partition: removedPartition, Clustering: space}
}

func ownedKey(owner mayfly.UserID, name string) store.Key {
	return store.Key{Partition: string(owner[:]), Clustering: name}
}
