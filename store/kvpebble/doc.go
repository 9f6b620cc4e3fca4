// Package kvpebble implements store.KV on a Pebble database of its own.
//
// Its invariant: the expiry is part of the stored entry, and an entry is served by
// that and now alone. One batch holds a group, the counts of its namespace and the
// index of expiries, so that they agree after any crash. An expired entry is taken
// back by a rewrite of the span of keys around it, never by a tombstone of its own (K3):
// docs/decisions/0019-reclaim-of-expired-keys.md.
//
// It never reads a clock, and never goes on after a failed durable write (I20).
// docs/format-kv.md describes its bytes.
package kvpebble
