package account

import (
	"hash/fnv"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

var (
	// Relations says who is a close friend of a user and whom the user blocks.
	Relations = store.DeclareTable(store.Declaration{
		Name: "relations", Number: 13, Purpose: "user, other → close friend, blocked",
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
	// Follows holds the follow edges by reader. It is the truth: an edge exists if its
	// row here says so.
	Follows = store.DeclareTable(store.Declaration{
		Name: "following", Number: 34, Purpose: "reader, author → requested or following, since when, what is muted",
		Mode: store.Swapped, Erasure: store.PartitionIsUser, ErasedByPart: true, ByUsers: true,
	})
	// Followers is the other direction of Follows. A row exists whenever the edge does.
	Followers = store.DeclareTable(store.Declaration{
		Name: "followers", Number: 35, Purpose: "author and place, reader → that a row of following names the author",
		Mode: store.Swapped, Erasure: store.PartitionIsUser, ErasedByPart: true, ByUsers: true,
	})
	// Recounts holds a mark for each count of a user that may be out of date. The mark
	// is written before the edge.
	Recounts = store.DeclareTable(store.Declaration{
		Name: "recounts", Number: 36, Purpose: "shard, user and place → since when edges are to be counted again",
		Mode: store.Swapped, Erasure: store.PartitionIsUser, ErasedByPart: true,
	})
	// Profiles holds what a user says of themselves, with the counts of edges and the
	// number of places of the followers.
	Profiles = store.DeclareTable(store.Declaration{
		Name: "profiles", Number: 37, Purpose: "user → handle, name, bio, avatar, private, counts",
		Mode: store.Swapped, Erasure: store.PartitionIsUser, ErasedByPart: true, ByUsers: true,
	})
	// Handles holds which user has a handle. The profile names every handle that its
	// user may have here, so that erasing the user finds them.
	Handles = store.DeclareTable(store.Declaration{
		Name: "handles", Number: 38, Purpose: "slice, handle → user",
		Mode: store.Swapped, Erasure: store.PartitionIsUser, ErasedByPart: true, ByUsers: true,
	})
	// Avatars holds the small pictures that users made of images that they sent.
	Avatars = store.DeclareTable(store.Declaration{
		Name: "avatars", Number: 48, Purpose: "user, id → the picture and its type",
		Mode: store.Swapped, Erasure: store.PartitionIsUser, ByUsers: true,
	})
)

// Tables returns the tables that this package declares.
func Tables() []store.Table {
	return []store.Table{Relations, Related, Families, DeniedTokens, Follows, Followers, Recounts, Profiles, Handles, Avatars}
}

// RelationKey returns the key of the row that says how owner stands to other.
func RelationKey(owner, other mayfly.UserID) store.Key {
	return store.Key{Partition: string(owner[:]), Clustering: string(other[:])}
}

// RelatedKey returns the key of the row that says that owner's relations name
// other.
func RelatedKey(other, owner mayfly.UserID) store.Key {
	return store.Key{Partition: string(other[:]), Clustering: string(owner[:])}
}

// FollowKey returns the key of the edge from reader to author.
func FollowKey(reader, author mayfly.UserID) store.Key {
	return store.Key{Partition: string(reader[:]), Clustering: string(author[:])}
}

// FollowerKey returns the key of the other direction of an edge.
func FollowerKey(author mayfly.UserID, p Place, reader mayfly.UserID) store.Key {
	return store.Key{Partition: p.partition(author), Clustering: string(reader[:])}
}

// Place is which of an author's partitions of Followers has the row of an edge. The
// edge says which, so that rows stay where they are when the number of places grows.
type Place uint8

// The places beside those of followers.
const (
	followerPlaces Place = 129 // place 0 is the only one up to a threshold; above it new rows go to the others
	mutedPlace     Place = 253 // of authors whom a reader mutes and does not follow
	requestPlace   Place = 254
	followingCount Place = 255 // no place of Followers: in Recounts, the edges from the user
)

// partition is the author alone for the first place, as most authors have no other.
func (p Place) partition(author mayfly.UserID) string {
	if p == 0 {
		return string(author[:])
	}
	return string(append(author[:], byte(p)))
}

func hashOf(text string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(text))
	return h.Sum32()
}

// recountShards is into how many partitions the marks are split.
const recountShards = 16

func recountPartition(shard int) string { return string([]byte{'m', byte(shard)}) }

func recountKey(user mayfly.UserID, p Place) store.Key {
	name := string(append(user[:], byte(p)))
	return store.Key{Partition: recountPartition(int(hashOf(name) % recountShards)), Clustering: name}
}

func profileKey(user mayfly.UserID) store.Key { return store.Key{Partition: string(user[:])} }

// handleKey returns the key of a handle, in one of 65,536 partitions.
func handleKey(handle string) store.Key {
	slice := hashOf(handle)
	return store.Key{Partition: string([]byte{'h', byte(slice >> 8), byte(slice)}), Clustering: handle}
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
