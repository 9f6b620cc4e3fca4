package intake

import (
	"time"

	"github.com/mayflyhq/mayfly/store"
)

// Idempotency remembers what a user's idempotency key was used for.
var Idempotency = store.DeclareTable(store.Declaration{
	Name: "idempotency", Number: 2, Purpose: "user, key → id and hash of the request; 24 h",
	Mode: store.Swapped, Erasure: store.PartitionIsUser, TimeToLive: 24 * time.Hour, WrittenOnce: true, ByUsers: true,
})

// Tables returns the tables that this package declares.
func Tables() []store.Table { return []store.Table{Idempotency} }
