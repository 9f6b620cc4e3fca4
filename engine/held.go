package engine

import (
	"encoding/binary"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// Held lists the items that are held, for moderators: by the hour in which they were,
// and in a partition of their own the hours that have any. Its rows are views, written
// before the row of the item and removed after it: whether an item is held its row says.
// The generation of the hold is in the key, so that the end of one hold removes nothing
// of the next.
var Held = store.DeclareTable(store.Declaration{
	Name: "held", Number: 39, Purpose: "hours with holds; hour, item and generation of its hold → that it may be held",
	Mode: store.Plain, Erasure: store.NamesItems, NotByServer: true,
})

const (
	heldFormat = 1
	// HeldHours is the partition of Held with the hours.
	HeldHours = "hours"
	// HeldKeyBytes is how long the clustering of a held item is.
	HeldKeyBytes = len(mayfly.ID{}) + 4

	minutesOfHour = 60
)

// HeldHour returns the hour of an instant, as HeldHours and the partitions of Held have
// it.
func HeldHour(at mayfly.Instant) string {
	return string(binary.BigEndian.AppendUint32([]byte{'h'}, uint32(at.Minute()/minutesOfHour)))
}

// HeldKey returns the key of a held item in Held.
func HeldKey(item mayfly.Item) store.Key {
	hold := item.Hold
	if hold == (mayfly.Stamp{}) { // it was born held
		hold = mayfly.Stamp{Generation: mayfly.Born, At: item.ID.Birth()}
	}
	return store.Key{Partition: HeldHour(hold.At), Clustering: string(binary.BigEndian.AppendUint32(item.ID[:], uint32(hold.Generation)))}
}

// AddToHeld lists an item that is going to be held as its row then says it.
func AddToHeld(b *store.Batch, item mayfly.Item) {
	key := HeldKey(item)
	b.Put(Held, store.Key{Partition: HeldHours, Clustering: key.Partition}, []byte{heldFormat}, 0)
	b.Put(Held, key, []byte{heldFormat}, 0)
}
