// Package cassandrastore is in charge of the cluster's ledger, tables and batches
// on Apache Cassandra: Ledger, Rows, Writer and KV. Events go to a Log that it is given.
//
// Its invariant: a row of an item is born by a plain insert stamped 1 and from
// then on written only conditionally, so that a birth that lands late is shadowed
// and no clock decides (trap 13); a swapped table is never written plainly, a
// plain one never conditionally (trap 19), and so are namespaces of keys.
//
// It never lets the server's TTL end an item, a body, an index entry, a reminder or
// a key before its expiry (L13, K5), and never reads a partition from before where a walk has come.
// docs/format-cassandra.md spells out its tables and bytes.
package cassandrastore
