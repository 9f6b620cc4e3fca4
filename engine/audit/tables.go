package audit

import "github.com/mayflyhq/mayfly/store"

// Table holds the append-only, hash-chained records. They outlive the accounts
// that they name.
var Table = store.DeclareTable(store.Declaration{
	Name: "audit", Number: 9, Purpose: "chain, number → what was done by whom and why",
	Mode: store.Swapped, Erasure: store.Kept,
})

// Tables returns the tables that this package declares.
func Tables() []store.Table { return []store.Table{Table} }
