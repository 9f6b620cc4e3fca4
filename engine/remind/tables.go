package remind

import "github.com/mayflyhq/mayfly/store"

var (
	// Reminders holds durable notes to do a step for an item at an instant. The walk
	// removes them: a server cannot know whether the step was done.
	Reminders = store.DeclareTable(store.Declaration{
		Name: "reminders", Number: 5, Purpose: "due minute, shard → steps to do for items",
		Mode: store.Plain, Erasure: store.NamesItems, NotByServer: true,
	})
	// DeadTable holds the steps that were given up after their last try.
	DeadTable = store.DeclareTable(store.Declaration{
		Name: "dead_letters", Number: 10, Purpose: "shard → item, step: reason, attempts, history",
		Mode: store.Swapped, Erasure: store.NamesItems,
	})
)

// Tables returns the tables that this package declares.
func Tables() []store.Table { return []store.Table{Reminders, DeadTable} }
