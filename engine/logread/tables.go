package logread

import (
	"time"

	"github.com/mayflyhq/mayfly/store"
)

// DeadEvents holds the events that a reader of the log has given up, as long as the
// log keeps events.
var DeadEvents = store.DeclareTable(store.Declaration{
	Name: "dead_events", Number: 20, Purpose: "group of readers → event: reason, attempts; 30 days, as the log",
	Mode: store.Swapped, Erasure: store.Kept, TimeToLive: 30 * 24 * time.Hour,
})

// Tables returns the tables that this package declares.
func Tables() []store.Table { return []store.Table{DeadEvents} }
