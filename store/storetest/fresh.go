package storetest

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// Cases write under random names that no other case uses. They have no seed on
// purpose, because a server may still hold the data of the last run.

// hole is a pigeonhole: a minute and a shard.
type hole struct {
	minute mayfly.Minute
	shard  mayfly.Shard
}

// freshHole returns one of 2.5 billion pigeonholes.
func freshHole() hole {
	const first, years = 15_778_080, 300 // from the year 2000
	return hole{
		minute: mayfly.Minute(first + rand.Uint32N(years*365*24*60)),
		shard:  mayfly.Shard(rand.UintN(mayfly.Shards)),
	}
}

func freshUser() mayfly.UserID {
	var u mayfly.UserID
	binary.BigEndian.PutUint64(u[:8], rand.Uint64())
	binary.BigEndian.PutUint64(u[8:], rand.Uint64())
	return u
}

func freshNonce() mayfly.Nonce { return mayfly.Nonce(rand.Uint64() | 1) }

func freshName(what string) string { return fmt.Sprintf("%s-%016x", what, rand.Uint64()) }

// freshKey returns a key in a partition that begins with 16 random bytes, as the
// erasure rules of the tables require.
func freshKey(clustering string) store.Key {
	u := freshUser()
	return store.Key{Partition: string(u[:]), Clustering: clustering}
}

// freshBlob returns the first key of a new upload.
func freshBlob() mayfly.BlobKey { return mayfly.UploadKey(freshID(day, freshUser()), 0) }

// day is a story's lifetime.
const day = mayfly.Lifetime(2<<10 | 24)

// freshID returns the id of an item born between 2026 and 2030.
func freshID(lifetime mayfly.Lifetime, owner mayfly.UserID) mayfly.ID {
	const from, years = 1_767_225_600_000, 4
	return makeID(mayfly.Instant(from+rand.Int64N(years*365*24*3600*1000)), lifetime, owner, rand.Uint64())
}

// dueID returns an id of the hole whose deadline is offset after the hole's start.
func (h hole) dueID(offset time.Duration, lifetime mayfly.Lifetime, owner mayfly.UserID) mayfly.ID {
	birth := h.minute.Start().Add(offset) - mayfly.Instant(lifetime.Duration().Milliseconds())
	return makeID(birth, lifetime, owner, rand.Uint64()&^0xf|uint64(h.shard))
}

func makeID(birth mayfly.Instant, lifetime mayfly.Lifetime, owner mayfly.UserID, random uint64) mayfly.ID {
	id, err := mayfly.NewID(birth, lifetime, owner.Trace(), random)
	if err != nil {
		panic(err) // the cases use only valid births and lifetimes
	}
	return id
}

// birthOf returns a story with that id and owner.
func birthOf(id mayfly.ID, owner mayfly.UserID, media uint8) store.Birth {
	b := store.Birth{
		Item: mayfly.Item{
			ID: id, Owner: owner, Product: mayfly.Story, Fate: mayfly.Archive, Audience: mayfly.Followers, Media: media,
			State: mayfly.Active, Generation: mayfly.Born, Nonce: freshNonce(), Changed: id.Birth(),
		},
		Body: mayfly.Body{Text: "caption of " + id.Short(), Data: []byte{0, 0xff, 1}},
	}
	if media > 0 {
		b.Item.Upload = freshID(day, owner)
		b.Item.Keys.Hot = mayfly.Born
	}
	for n := range media {
		b.Body.Media = append(b.Body.Media, mayfly.Medium{
			Type: "image/jpeg", Size: int64(rand.Uint32()), SHA256: sha256.Sum256([]byte{n}), Width: 1080, Height: 1920,
		})
	}
	return b
}

// freshBirth returns a story in a fresh hole.
func freshBirth() store.Birth {
	owner := freshUser()
	return birthOf(freshHole().dueID(time.Duration(rand.IntN(60_000))*time.Millisecond, day, owner), owner, 2)
}

// step returns a change of item to a state that the contract must allow, if the state
// may follow.
func step(item mayfly.Item, to mayfly.State) mayfly.Change {
	c := mayfly.Change{
		ID: item.ID, From: item.State, Generation: item.Generation, To: to,
		Nonce: freshNonce(), Run: mayfly.Run(rand.Uint64()), Cause: mayfly.ByExpiry,
		At: max(item.End(), item.Changed) + 1,
	}
	switch {
	case to == mayfly.Deleted:
		c.Cause = mayfly.ByUser
	case to == mayfly.Active:
		c.Cause, c.ServesUntil = mayfly.BySupport, c.At.Add(time.Hour)
		c.Keys = &mayfly.Keys{Hot: item.Generation + 1, Cold: item.Keys.Cold}
	case to == mayfly.Archiving:
		c.Cause = mayfly.ByArchive
	case to == mayfly.Cold:
		c.Cause, c.Keys = mayfly.ByArchive, &mayfly.Keys{Cold: item.Generation}
	}
	return c
}

// wall returns the system time, which a server with its own clock sees too.
func wall() mayfly.Instant { return mayfly.InstantOf(time.Now()) }

// news returns an event of item that happens now, so that readers can seek to it.
func news(item mayfly.Item, verb mayfly.Verb) mayfly.Event {
	e := mayfly.EventOf(item, verb)
	e.At = wall()
	return e
}
