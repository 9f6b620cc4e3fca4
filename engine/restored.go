package engine

import (
	"encoding/binary"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

var (
	// Restored holds the items that serve after their deadline: the only exceptions to
	// the arithmetic of L2. It is read by id.
	Restored = store.DeclareTable(store.Declaration{
		Name: "restored", Number: 4, Purpose: "restored item → until when it serves",
		Mode: store.Swapped, Erasure: store.NamesItems,
	})
	// RestoredDays lists restored items by the day in which their time ends, so that
	// they can be read without those that have ended. Entries are never deleted one by
	// one, because each would be a tombstone that the next read goes over: they go by
	// their time. One that is too many does no harm, because the item's row decides.
	RestoredDays = store.DeclareTable(store.Declaration{
		Name: "restored_days", Number: 25, Purpose: "day and shard → restored ids, by until when they serve; one partition lists the days",
		Mode: store.Plain, Erasure: store.NamesItems, TimeToLive: restoredKept + restoredDay,
	})
)

const (
	restoredDay = 24 * time.Hour
	// restoredKept is how long an entry is stored after its time.
	restoredKept = 30 * 24 * time.Hour
	// restoredDayList is the partition that lists the others.
	restoredDayList = "days"
)

// RestoredKey returns the key of an item in the set of restored items.
func RestoredKey(id mayfly.ID) store.Key { return store.Key{Partition: string(id[:])} }

// RestoredReclaim returns when the entry of an item that is restored until an instant
// may be removed by the store.
func RestoredReclaim(until mayfly.Instant) mayfly.Instant { return until.Add(restoredKept) }

// ListRestored adds to a batch that an item is restored until an instant. It must be
// durable before the entry in Restored is written.
func ListRestored(b *store.Batch, id mayfly.ID, until mayfly.Instant) {
	day := append(restoredDayOf(until), byte(id.Shard()))
	end := until - until%mayfly.Instant(restoredDay.Milliseconds()) + mayfly.Instant(restoredDay.Milliseconds())
	b.Put(RestoredDays, store.Key{Partition: restoredDayList, Clustering: string(day)}, []byte{1}, RestoredReclaim(end))
	key := store.Key{Partition: string(day), Clustering: restoredFrom(until) + string(id[:])}
	b.Put(RestoredDays, key, []byte{1}, RestoredReclaim(until))
}

// RestoredDaysFrom returns the range of the days whose entries end at an instant or
// later; the clustering key of each of its rows is the partition of such a day.
func RestoredDaysFrom(at mayfly.Instant) store.Range {
	return store.Range{Partition: restoredDayList, From: string(restoredDayOf(at))}
}

// RestoredOn returns the range of a day's entries that end at an instant or later.
func RestoredOn(day string, at mayfly.Instant) store.Range {
	return store.Range{Partition: day, From: restoredFrom(at)}
}

// ReadRestored returns the item of an entry. Errors: Corrupt.
func ReadRestored(row store.Row) (mayfly.ID, error) {
	if len(row.Clustering) != 8+len(mayfly.ID{}) {
		return mayfly.ID{}, mayfly.Errorf(mayfly.Corrupt, "table %s: a key has %d bytes", RestoredDays, len(row.Clustering))
	}
	return mayfly.ID([]byte(row.Clustering[8:])), nil
}

func restoredDayOf(at mayfly.Instant) []byte {
	return binary.BigEndian.AppendUint32(nil, uint32(max(0, at)/mayfly.Instant(restoredDay.Milliseconds())))
}

func restoredFrom(at mayfly.Instant) string {
	return string(binary.BigEndian.AppendUint64(nil, uint64(max(0, at))))
}
