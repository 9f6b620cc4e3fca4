package clock

import "github.com/mayflyhq/mayfly/store"

// MarksTable holds the persisted marks of the nodes' clocks.
var MarksTable = store.DeclareTable(store.Declaration{
	Name: "marks", Number: 8, Purpose: "node → persisted mark of its clock",
	Mode: store.Swapped, Erasure: store.NoUser,
})

// Tables returns the tables that this package declares.
func Tables() []store.Table { return []store.Table{MarksTable} }
