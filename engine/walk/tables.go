package walk

import "github.com/mayflyhq/mayfly/store"

var (
	// Leases says which node walks a shard, and which nodes are on the roll.
	Leases = store.DeclareTable(store.Declaration{
		Name: "leases", Number: 6, Purpose: "shard, or walker on the roll → holder, until",
		Mode: store.Swapped, Erasure: store.NoUser,
	})
	// Watermarks says how far each walk has come in each shard.
	Watermarks = store.DeclareTable(store.Declaration{
		Name: "watermarks", Number: 7, Purpose: "walk → shard → durable watermark and run",
		Mode: store.Swapped, Erasure: store.NoUser,
	})
	// Runs says what each run of a walk has passed, so that it can be undone.
	Runs = store.DeclareTable(store.Declaration{
		Name: "runs", Number: 12, Purpose: "run → shard → walk, and from where it went",
		Mode: store.Plain, Erasure: store.NoUser,
	})
)

// Tables returns the tables that this package declares.
func Tables() []store.Table { return []store.Table{Leases, Watermarks, Runs} }
