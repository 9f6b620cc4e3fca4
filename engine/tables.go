// Package engine declares the tables in which several engine packages meet, and
// the keys of their rows. A table that one package owns is declared there.
package engine

import (
	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

var (
	// Owners is the index of a user's items, by birth.
	Owners = store.DeclareTable(store.Declaration{
		Name: "owners", Number: 1, Purpose: "user → ids of own items, by birth",
		Mode: store.Plain, Erasure: store.PartitionIsUser, NotByServer: true,
	})
	// Uploads says which item an upload was published as.
	Uploads = store.DeclareTable(store.Declaration{
		Name: "uploads", Number: 3, Purpose: "upload → the item that owns its objects",
		Mode: store.Plain, Erasure: store.NamesItems,
	})
	// Restored lists the items that serve after their deadline: the only exceptions
	// to the arithmetic of L2.
	Restored = store.DeclareTable(store.Declaration{
		Name: "restored", Number: 4, Purpose: "shard → restored ids with serves_until",
		Mode: store.Swapped, Erasure: store.NamesItems,
	})
	// Erased holds the tombstones of erased accounts, with their receipts.
	Erased = store.DeclareTable(store.Declaration{
		Name: "erased", Number: 11, Purpose: "user → when the account was erased, and how far it has come",
		Mode: store.Swapped, Erasure: store.Kept,
	})
	// Settings holds what all nodes of a store must agree on.
	Settings = store.DeclareTable(store.Declaration{
		Name: "settings", Number: 21, Purpose: "subject, name → value that all nodes share",
		Mode: store.Swapped, Erasure: store.NoUser,
	})
)

// Tables returns the tables that this package declares.
func Tables() []store.Table {
	return []store.Table{Owners, Uploads, Restored, Erased, Settings}
}

// OwnerKey returns the key under which the owner index names an item.
func OwnerKey(owner mayfly.UserID, id mayfly.ID) store.Key {
	return store.Key{Partition: string(owner[:]), Clustering: string(id[:])}
}

// UploadKey returns the key of the row that names the item of an upload.
func UploadKey(upload mayfly.ID) store.Key { return store.Key{Partition: string(upload[:])} }

// RestoredKey returns the key of an item in the set of restored items.
func RestoredKey(id mayfly.ID) store.Key {
	return store.Key{Partition: string([]byte{byte(id.Shard())}), Clustering: string(id[:])}
}

// ErasedKey returns the key of an account's tombstone.
func ErasedKey(user mayfly.UserID) store.Key { return store.Key{Partition: string(user[:])} }
