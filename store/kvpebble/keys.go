package kvpebble

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// The first byte of every key: docs/format-kv.md.
const (
	duePrefix   = 'e' // namespace, expiry, key → nothing
	countPrefix = 'h' // namespace, end of a period → counts of the entries that expire in it
	entryPrefix = 'k' // namespace, key → entry
	metaPrefix  = 'm' // format, version
)

// The second byte of a key that begins with metaPrefix.
const (
	metaFormat  = 'f' // → format version
	metaVersion = 'v' // → no entry has this version or a later one
)

// appendSpace appends the prefix of all keys of one kind of a namespace. It contains
// the length of the name, so that no namespace's prefix is a prefix of another's.
func appendSpace(b []byte, kind byte, name string) []byte {
	b = append(b, kind, byte(len(name)))
	return append(b, name...)
}

// spaceHead returns the length of the prefix of a stored key's namespace.
func spaceHead(key []byte) (int, error) {
	if len(key) >= 2 {
		if n := 2 + int(key[1]); n <= len(key) && n > 2 {
			return n, nil
		}
	}
	return 0, mayfly.Errorf(mayfly.Corrupt, "stored key %x names no namespace", key)
}

func entryKey(name, key string) []byte {
	b := make([]byte, 0, 2+len(name)+len(key))
	return append(appendSpace(b, entryPrefix, name), key...)
}

func appendDueKey(b []byte, name string, at mayfly.Instant, key string) []byte {
	b = binary.BigEndian.AppendUint64(appendSpace(b, duePrefix, name), uint64(at))
	return append(b, key...)
}

func appendCountKey(b []byte, name string, end mayfly.Instant) []byte {
	return binary.BigEndian.AppendUint64(appendSpace(b, countPrefix, name), uint64(end))
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

// next appends a zero byte: the first key after key.
func next(key []byte) []byte { return append(key[:len(key):len(key)], 0) }

// An entry is stored as its format, the instant of its last write, how long after that it
// expires (0 is never), its version and its value. Equal lifetimes are equal bytes, which
// compression takes out.
const (
	entryFormat = 2
	entryHead   = 1 + 8 + 8 + 8
)

func putEntry(b []byte, e *store.KVEntry) {
	putHead(b, e)
	copy(b[entryHead:], e.Value)
}

func putHead(b []byte, e *store.KVEntry) {
	b[0] = entryFormat
	binary.BigEndian.PutUint64(b[1:], uint64(e.Written))
	life := uint64(0)
	if e.Expiry != 0 {
		life = uint64(e.Expiry - e.Written)
	}
	binary.BigEndian.PutUint64(b[9:], life)
	binary.BigEndian.PutUint64(b[17:], e.Version)
}

// parseEntry returns the stored entry; its value is a part of b.
func parseEntry(key string, b []byte) (store.KVEntry, error) {
	if len(b) < entryHead || b[0] != entryFormat {
		return store.KVEntry{}, mayfly.Errorf(mayfly.Corrupt, "the entry of key %q has %d bytes and no known format", key, len(b))
	}
	e := store.KVEntry{
		Key: key, Found: true, Value: b[entryHead:], Version: binary.BigEndian.Uint64(b[17:]),
		Written: mayfly.Instant(binary.BigEndian.Uint64(b[1:])),
	}
	if life := binary.BigEndian.Uint64(b[9:]); life != 0 {
		e.Expiry = e.Written + mayfly.Instant(life)
	}
	return e, nil
}

// Expiries are counted in periods of 2^16 ms, about a minute; those of entries that
// live for longer than 2^12 of them in longer ones, so that the number of periods of a
// namespace stays small whatever its lifetimes are.
const (
	periodBits  = 16
	periodsBits = 12
)

// periodEnd returns the end of the period in which an entry expires: the multiple of
// the period at or after its expiry; 0 for never. It is a function of the stored entry
// alone, because what was added when it was written is subtracted when it goes.
func periodEnd(written, expiry mayfly.Instant) mayfly.Instant {
	if expiry == 0 {
		return 0
	}
	life := uint64(max(expiry-written, 0))
	width := max(periodBits, bits.Len64(life>>periodsBits))
	if expiry > math.MaxInt64-1<<width {
		return math.MaxInt64
	}
	return (expiry + 1<<width - 1) >> width << width
}
