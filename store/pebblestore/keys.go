package pebblestore

import (
	"encoding/binary"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// The first byte of every key: docs/format-pebble.md.
const (
	bodyPrefix    = 'b' // id → body
	ledgerPrefix  = 'i' // minute, shard, deadline, id → row
	logPrefix     = 'l' // stream, partition, seq → record
	metaPrefix    = 'm' // format, positions of the log
	eternalPrefix = 'n' // shard, id → row of an item that never expires
	reclaimPrefix = 'r' // reclaimAt, the key of a row of a table → nothing
	tablePrefix   = 't' // table, partition, clustering → reclaimAt, value
)

// The second byte of a key that begins with metaPrefix.
const (
	metaFormat = 'v' // → format version
	metaFirst  = 'f' // stream, partition → the first seq that was not trimmed
	metaGroup  = 'g' // stream, group → the next seq of each partition
	metaErased = 'e' // → when EraseDeleted last finished
)

// maxInstant is the last instant that fits into the six bytes of a key.
const maxInstant = mayfly.MaxBirth

const (
	ledgerHoleSize = 1 + 4 + 1 // prefix of the keys of one minute and shard
	ledgerKeySize  = ledgerHoleSize + 6 + 16
	eternalKeySize = 1 + 1 + 16
	bodyKeySize    = 1 + 16
	logKeySize     = 1 + 1 + 1 + 8
)

// rowKey is the key of an item's row, padded with zeros to a fixed size, so that a
// page of keys is one array and sorts as the database does.
type rowKey [ledgerKeySize]byte

// keyOf returns the key of an item's row.
func keyOf(id mayfly.ID) rowKey {
	var k rowKey
	if !id.Expires() {
		k[0], k[1] = eternalPrefix, byte(id.Shard())
		copy(k[2:], id[:])
		return k
	}
	deadline := id.Deadline()
	k.at(deadline.Minute(), id.Shard(), deadline)
	copy(k[12:], id[:])
	return k
}

// at sets the part of the key in front of the id.
func (k *rowKey) at(minute mayfly.Minute, shard mayfly.Shard, deadline mayfly.Instant) {
	k[0] = ledgerPrefix
	binary.BigEndian.PutUint32(k[1:], uint32(minute))
	k[5] = byte(shard)
	putInstant(k[6:], deadline)
}

// bytes returns the key without its padding.
func (k *rowKey) bytes() []byte {
	if k[0] == eternalPrefix {
		return k[:eternalKeySize]
	}
	return k[:]
}

// idAt reads the id out of the key of a row.
func idAt(key []byte) (mayfly.ID, error) {
	if n := len(key); n == ledgerKeySize || n == eternalKeySize {
		return mayfly.ID(key[n-16:]), nil
	}
	return mayfly.ID{}, mayfly.Errorf(mayfly.Corrupt, "ledger key %x has %d bytes", key, len(key))
}

func appendBodyKey(b []byte, id mayfly.ID) []byte {
	return append(append(b, bodyPrefix), id[:]...)
}

// appendPartition appends the prefix of all rows of a partition. It contains the
// partition's length, so that no partition's prefix is a prefix of another's.
func appendPartition(b []byte, t store.Table, partition string) []byte {
	b = append(b, tablePrefix, t.Number())
	b = binary.BigEndian.AppendUint16(b, uint16(len(partition)))
	return append(b, partition...)
}

// partitionIn returns the partition in the key of a row of a table.
func partitionIn(key []byte) (string, bool) {
	const head = 2 + 2
	if len(key) < head {
		return "", false
	}
	end := head + int(binary.BigEndian.Uint16(key[2:]))
	if len(key) < end {
		return "", false
	}
	return string(key[head:end]), true
}

func appendTableKey(b []byte, t store.Table, key store.Key) []byte {
	return append(appendPartition(b, t, key.Partition), key.Clustering...)
}

const reclaimHead = 1 + 6 // size of the prefix and the instant of a reclaim key

// appendReclaimKey appends the key of the reclaim entry of row, which is the key of
// a row of a table.
func appendReclaimKey(b []byte, at mayfly.Instant, row []byte) []byte {
	b = appendInstant(append(b, reclaimPrefix), at)
	return append(b, row[1:]...)
}

func putLogKey(k []byte, stream mayfly.Stream, partition uint32, seq uint64) {
	k[0], k[1], k[2] = logPrefix, byte(stream), byte(partition)
	binary.BigEndian.PutUint64(k[3:], seq)
}

func logKey(stream mayfly.Stream, partition uint32, seq uint64) []byte {
	k := make([]byte, logKeySize)
	putLogKey(k, stream, partition, seq)
	return k
}

// after returns the first key after all keys that begin with prefix. A prefix is
// never all 0xff, because its first byte is a letter.
func after(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; ; i-- {
		if end[i] != 0xff {
			end[i]++
			return end[:i+1]
		}
	}
}

func putInstant(b []byte, at mayfly.Instant) {
	binary.BigEndian.PutUint16(b, uint16(at>>32))
	binary.BigEndian.PutUint32(b[2:], uint32(at))
}

func appendInstant(b []byte, at mayfly.Instant) []byte {
	return append(b, byte(at>>40), byte(at>>32), byte(at>>24), byte(at>>16), byte(at>>8), byte(at))
}

func instantAt(b []byte) mayfly.Instant {
	return mayfly.Instant(binary.BigEndian.Uint16(b))<<32 | mayfly.Instant(binary.BigEndian.Uint32(b[2:]))
}
