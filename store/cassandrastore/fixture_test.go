package cassandrastore

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

func wall() mayfly.Instant { return mayfly.InstantOf(time.Now()) }

// noLog is for tests that append nothing.
type noLog struct{ store.Log }

const testBirth = mayfly.Instant(1_800_000_000_000)

// births are n stories of one pigeonhole, of a minute of their own.
func births(t testing.TB, n int, lifetime string) []store.Birth {
	t.Helper()
	l, err := mayfly.ParseLifetime(lifetime)
	if err != nil {
		t.Fatal(err)
	}
	at := testBirth + mayfly.Instant(rand.Int64N(500_000_000))*60_000
	var made []store.Birth
	for i := range n {
		var owner mayfly.UserID
		for j := range owner {
			owner[j] = byte(rand.Uint32())
		}
		id, err := mayfly.NewID(at+mayfly.Instant(i%1000), l, owner.Trace(), rand.Uint64()&^0xf|3)
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, store.Birth{
			Item: mayfly.Item{
				ID: id, Owner: owner, Product: mayfly.Story, Fate: mayfly.Archive, Audience: mayfly.Everyone,
				State: mayfly.Active, Generation: mayfly.Born, Nonce: mayfly.Nonce(rand.Uint64() | 1), Changed: at,
			},
			Body: mayfly.Body{Text: "a story of " + id.Short()},
		})
	}
	return made
}

func expire(item mayfly.Item) mayfly.Change {
	return mayfly.Change{
		ID: item.ID, From: item.State, Generation: item.Generation, To: mayfly.ExpiredHot,
		Nonce: mayfly.Nonce(rand.Uint64() | 1), Run: 7, Cause: mayfly.ByExpiry, At: item.ID.Deadline(),
	}
}
