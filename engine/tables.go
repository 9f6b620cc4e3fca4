package store

import "github.com/mayflyhq/mayfly"

// Where the rows of an item lie that more than one package writes or reads.

// OwnerKey is where the owner index names an item.
func OwnerKey(owner mayfly.UserID, id mayfly.ID) Key {
	return Key{Partition: string(owner[:]), Clustering: string(id[:])}
}

// UploadKey is where it is said which item an upload was published as.
func UploadKey(upload mayfly.ID) Key { return Key{Partition: string(upload[:])} }

// RestoredKey is where the restored set says that id is in it.
func RestoredKey(id mayfly.ID) Key {
	return Key{Partition: string([]byte{byte(id.Shard())}), Clustering: string(id[:])}
}

// ErasedKey is where the tombstone of an account is.
func ErasedKey(user mayfly.UserID) Key { return Key{Partition: string(user[:])} }
