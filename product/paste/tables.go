package paste

import (
	"encoding/binary"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// Claims holds who has read a paste that can be read a limited number of times: a
// row for each read, numbered from 0, with the token of the request that claimed it.
// The row of the last of several reads also has the digest of the others.
var Claims = store.DeclareTable(store.Declaration{
	Name: "claims", Number: 26, Purpose: "paste, number of the read → token of the request that has it",
	Mode: store.Swapped, Erasure: store.PartitionIsItem, MayHave: isPaste,
})

// Tables returns the tables that this package declares.
func Tables() []store.Table { return []store.Table{Claims} }

func isPaste(item mayfly.Item) bool { return item.Product == mayfly.Paste }

func claimKey(id mayfly.ID, read int) store.Key {
	return store.Key{Partition: string(id[:]), Clustering: string(binary.BigEndian.AppendUint16(nil, uint16(read)))}
}
