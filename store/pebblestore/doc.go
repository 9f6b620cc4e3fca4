// Package pebblestore implements the embedded store: Writer, Ledger, Rows and
// Log on one Pebble database, with one write-ahead log and one fsync.
//
// Its invariant: nothing is acknowledged before it is durable, and writes
// become durable in the order in which they became visible. A batch is
// all or nothing here, which is more than Writer promises and must not be
// relied on above.
//
// It never reads a clock, never scans to find what is due, and never goes on
// after a failed durable write (I20). docs/format-pebble.md describes its bytes.
package pebblestore
