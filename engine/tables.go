// Package engine declares the tables in which several engine packages meet, and
// the keys of their rows. A table that one package owns is declared there.
package engine

import (
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

var (
	// Owners is the index of a user's items, by birth.
	Owners = store.DeclareTable(store.Declaration{
		Name: "owners", Number: 1, Purpose: "user → ids of own items, by birth",
		Mode: store.Plain, Erasure: store.PartitionIsUser, NotByServer: true,
	})
	// Rings is the index of a user's stories that have not ended, by audience: what a
	// viewer may not see is not read. Held items are not in it.
	Rings = store.DeclareTable(store.Declaration{
		Name: "rings", Number: 24, Purpose: "user → ids of own stories that have not ended, by audience and birth",
		Mode: store.Plain, Erasure: store.PartitionIsUser, TimeToLive: 24 * time.Hour,
	})
	// Uploads says which item an upload was published as.
	Uploads = store.DeclareTable(store.Declaration{
		Name: "uploads", Number: 3, Purpose: "upload → the item that owns its objects",
		Mode: store.Plain, Erasure: store.NamesItems,
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
	return []store.Table{Owners, Rings, Uploads, Restored, RestoredDays, Erased, Settings, Held}
}

// OwnerKey returns the key under which the owner index names an item.
func OwnerKey(owner mayfly.UserID, id mayfly.ID) store.Key {
	return store.Key{Partition: string(owner[:]), Clustering: string(id[:])}
}

// BornFrom returns the prefix from which ids are born at an instant or later.
func BornFrom(at mayfly.Instant) string {
	at = min(max(at, 0), mayfly.MaxBirth)
	return string([]byte{byte(at >> 40), byte(at >> 32), byte(at >> 24), byte(at >> 16), byte(at >> 8), byte(at)})
}

// RingClass returns where the rings have the items for an audience, 0 for none. The
// classes that a viewer may see follow each other, whatever the viewer is: everyone's,
// with those of followers before them and those of close friends behind.
func RingClass(a mayfly.Audience) byte {
	switch a {
	case mayfly.Followers:
		return 1
	case mayfly.Everyone:
		return 2
	case mayfly.CloseFriends:
		return 3
	default:
		return 0
	}
}

// ringKept is how long after its deadline an item stays in the rings.
const ringKept = time.Hour

// inRings returns the key of an item in the rings, and false for one that is never in
// them: no story, no user's, or without an end.
func inRings(item mayfly.Item) (store.Key, bool) {
	class := RingClass(item.Audience)
	key := store.Key{Partition: string(item.Owner[:]), Clustering: string(append([]byte{class}, item.ID[:]...))}
	return key, item.Product == mayfly.Story && class != 0 && !item.Owner.IsZero() && item.ID.Expires()
}

// AddToRings puts an item into the index of items that have not ended.
func AddToRings(b *store.Batch, item mayfly.Item) {
	if key, ok := inRings(item); ok {
		b.Put(Rings, key, []byte{byte(item.Product)}, item.ID.Deadline().Add(ringKept))
	}
}

// LeaveRings takes an item out of that index, unless it has left by itself before its
// row changed last.
func LeaveRings(b *store.Batch, item mayfly.Item) {
	if key, ok := inRings(item); ok && item.Changed <= item.ID.Deadline().Add(2*ringKept) {
		b.Delete(Rings, key)
	}
}

// UploadKey returns the key of the row that names the item of an upload.
func UploadKey(upload mayfly.ID) store.Key { return store.Key{Partition: string(upload[:])} }

// ErasedKey returns the key of an account's tombstone.
func ErasedKey(user mayfly.UserID) store.Key { return store.Key{Partition: string(user[:])} }
