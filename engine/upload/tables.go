package upload

import (
	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

var (
	// Renditions describes the smaller pictures of an item's media.
	Renditions = store.DeclareTable(store.Declaration{
		Name: "renditions", Number: 18, Purpose: "item, object → type, size, hash",
		Mode: store.Plain, Erasure: store.PartitionIsItem,
		MayHave: func(item mayfly.Item) bool { return item.Media > 0 },
	})
	// Reservations holds uploads whose media arrive one by one.
	Reservations = store.DeclareTable(store.Declaration{
		Name: "reservations", Number: 19, Purpose: "user, upload → the media that have arrived",
		Mode: store.Swapped, Erasure: store.PartitionIsUser, ByUsers: true,
	})
	// OpenUploads lists what counts against the budget of an author.
	OpenUploads = store.DeclareTable(store.Declaration{
		Name: "open_uploads", Number: 27, Purpose: "user → open reservations and their bytes",
		Mode: store.Swapped, Erasure: store.PartitionIsUser, ByUsers: true,
	})
)

// Tables returns the tables that this package declares.
func Tables() []store.Table { return []store.Table{Renditions, Reservations, OpenUploads} }
