package account

import (
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

var (
	// Relations says who follows whom, who is a close friend, who is blocked.
	Relations = store.DeclareTable(store.Declaration{
		Name: "relations", Number: 13, Purpose: "user, other → follows, close friend, blocked",
		Mode: store.Swapped, Erasure: store.PartitionIsUser, ByUsers: true, Mirror: "related", MirrorKey: mirrorKey,
	})
	// Related is the other direction: in whose relations a user is named. A row
	// exists whenever the relation does, so that erasing the user finds it (ST14).
	Related = store.DeclareTable(store.Declaration{
		Name: "related", Number: 14, Purpose: "other, user → that relations name it",
		Mode: store.Swapped, Erasure: store.PartitionIsUser, ByUsers: true, Mirror: "relations", MirrorKey: mirrorKey,
		Changed: relationsChanged,
	})
	// Families holds the chains of refresh tokens.
	Families = store.DeclareTable(store.Declaration{
		Name: "families", Number: 15, Purpose: "user, family → the one refresh token that is good",
		Mode: store.Swapped, Erasure: store.PartitionIsUser, ByUsers: true,
	})
	// DeniedTokens holds the access tokens that were denied before their end, until
	// they would have ended. Users write to it; a token must be denied also while the
	// disk is nearly full, so it is not ByUsers: there is at most a row for a token.
	DeniedTokens = store.DeclareTable(store.Declaration{
		Name: "denied_tokens", Number: 28, Purpose: "hash of issuer and jti → that the access token is refused",
		Mode: store.Swapped, Erasure: store.NoUser, TimeToLive: 24 * time.Hour,
	})
)

// Tables returns the tables that this package declares.
func Tables() []store.Table { return []store.Table{Relations, Related, Families, DeniedTokens} }

// RelationKey returns the key of the row that says how owner stands to other.
func RelationKey(owner, other mayfly.UserID) store.Key {
	return store.Key{Partition: string(owner[:]), Clustering: string(other[:])}
}

// RelatedKey returns the key of the row that says that owner's relations name
// other.
func RelatedKey(other, owner mayfly.UserID) store.Key {
	return store.Key{Partition: string(other[:]), Clustering: string(owner[:])}
}

// mirrorKey returns the key of the same relation in the other table.
func mirrorKey(key store.Key) (store.Key, error) {
	if len(key.Clustering) != len(mayfly.UserID{}) {
		return store.Key{}, mayfly.Errorf(mayfly.Corrupt, "a relation with a clustering key of %d bytes", len(key.Clustering))
	}
	return store.Key{Partition: key.Clustering, Clustering: key.Partition}, nil
}

// relationsChanged returns the signal about the user whose relations named an
// erased one. Caches about the erased user grant nothing: no token of that user is
// valid any more.
func relationsChanged(key store.Key) store.Signal {
	var owner mayfly.UserID
	copy(owner[:], key.Clustering)
	return store.Signal{Topic: store.RelationsChanged, Owner: owner}
}
