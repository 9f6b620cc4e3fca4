package store

import "github.com/mayflyhq/mayfly"

// RelationKey is where it is said how owner stands to other.
func RelationKey(owner, other mayfly.UserID) Key {
	return Key{Partition: string(owner[:]), Clustering: string(other[:])}
}

// RelatedKey is the other direction: where it is said that owner's relations name
// other. It is there whenever the relation is, so that erasing other finds it (ST14).
func RelatedKey(other, owner mayfly.UserID) Key {
	return Key{Partition: string(other[:]), Clustering: string(owner[:])}
}
