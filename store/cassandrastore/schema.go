package cassandrastore

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// migration is one numbered step of the schema. Its statements may be run again.
// Numbers are never reused.
type migration struct {
	number     int
	name       string
	statements []string
}

// ledgerFormat is the number of the migration that creates the ledger. A keyspace with
// a lower one has a format that is not supported any more: of the ledger, or of the
// values of a declared table.
const ledgerFormat = 6

// firstShared is the first number of the shared tables: migration firstShared + n
// creates the one of sharing n. Lower numbers change the ledger.
const firstShared = 100

// kvFormatNumber is the number of the migration that creates the table of the key-value
// store.
const kvFormatNumber = 200

// sharing is one of the tables that hold the rows of all declared tables (decision
// 0018). Declared tables whose rows are written and end alike share one; the number of
// the declared table is the first byte of the partition key.
type sharing uint8

const (
	plainRows       sharing = iota // by batch
	plainTTLRows                   // by batch, with a TTL
	plainOnceRows                  // by batch, once, with a TTL
	swappedRows                    // by compare-and-set
	swappedTTLRows                 // by compare-and-set, with a TTL
	swappedOnceRows                // by compare-and-set, once, with a TTL
)

// sharingOf returns the table that holds the rows of t.
func sharingOf(t store.Table) sharing {
	d := t.Declared()
	in := plainRows
	if d.Mode == store.Swapped {
		in = swappedRows
	}
	switch {
	case d.WrittenOnce:
		return in + plainOnceRows
	case d.TimeToLive != 0:
		return in + plainTTLRows
	default:
		return in
	}
}

func (s sharing) String() string {
	return [...]string{"rows_plain", "rows_plain_ttl", "rows_plain_once", "rows_swapped", "rows_swapped_ttl", "rows_swapped_once"}[s]
}

// create returns the statement that creates the table in a keyspace. Tombstones of
// rows with a TTL are kept for a short time: if a node misses a deletion, the row comes
// back for a few days at most, and it is checked again when it is read.
func (s sharing) create(keyspace string) string {
	compaction, grace := rewritten, ""
	if s == plainOnceRows || s == swappedOnceRows {
		compaction = writtenOnce
	}
	if s != plainRows && s != swappedRows {
		grace = " AND gc_grace_seconds = 86400"
	}
	return createTable(keyspace, s.String(), `partition blob, sort blob, value blob, PRIMARY KEY (partition, sort)`,
		compaction, "rows of declared tables, whose number is the first byte of partition") + grace
}

// migrations returns all steps, in order, for a keyspace with these tables.
func migrations(keyspace string, tables []store.Table) []migration {
	all := []migration{{ledgerFormat, "the ledger", []string{
		// A pigeonhole is a partition, ordered by deadline, so that a walk reads only
		// what is due (L3, trap 15).
		createTable(keyspace, "items", `minute bigint, shard tinyint, deadline bigint, id blob, state tinyint, generation bigint, row blob,
			PRIMARY KEY ((minute, shard), deadline, id)`, rewritten, "items that expire, by deadline"),
		createTable(keyspace, "eternal", `minute bigint, shard tinyint, birth bigint, id blob, state tinyint, generation bigint, row blob,
			PRIMARY KEY ((minute, shard), birth, id)`, rewritten, "items that never expire, by birth"),
		createTable(keyspace, "days", `ledger text, shard tinyint, day bigint, PRIMARY KEY ((ledger, shard), day)`, rewritten, "which days a shard has in minutes"),
		createTable(keyspace, "minutes", `ledger text, shard tinyint, day bigint, minute bigint, PRIMARY KEY ((ledger, shard, day), minute)`,
			rewritten, "which minutes a shard has in items and in eternal"),
		createTable(keyspace, "bodies", `id blob PRIMARY KEY, body blob`, rewritten, "immutable content of items"),
	}}}
	for _, in := range sharings(tables) {
		all = append(all, migration{firstShared + int(in), "table " + in.String(), []string{in.create(keyspace)}})
	}
	return append(all, migration{kvFormatNumber, "keys with a time to live", []string{
		createTable(keyspace, "kv", `space blob, slot smallint, key blob, meta blob, value blob, PRIMARY KEY ((space, slot), key)`,
			rewritten, "entries of the key-value store, by slot of a namespace"),
	}})
}

// sharings returns the shared tables that these tables need, in order.
func sharings(tables []store.Table) []sharing {
	var needed []sharing
	for _, t := range tables {
		needed = append(needed, sharingOf(t))
	}
	slices.Sort(needed)
	return slices.Compact(needed)
}

// Compaction of tables. Time windows are not for tables whose rows are rewritten: they
// would never be dropped (trap 16).
const (
	rewritten   = `{'class': 'UnifiedCompactionStrategy', 'scaling_parameters': 'T4'}`
	writtenOnce = `{'class': 'TimeWindowCompactionStrategy', 'compaction_window_unit': 'HOURS', 'compaction_window_size': '2'}`
)

func createTable(keyspace, name, columns, compaction, purpose string) string {
	return fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s.%s (%s) WITH compaction = %s AND comment = '%s'",
		keyspace, name, columns, compaction, strings.ReplaceAll(purpose, "'", "''"))
}

// createMigrations creates the table that holds the lease, so it cannot be under the
// lease. Its fixed id makes nodes that create it at once create the same table.
func createMigrations(keyspace string) string {
	return createTable(keyspace, "migrations", `scope text, number int, name text, PRIMARY KEY (scope, number)`,
		rewritten, "numbered steps of the schema; number 0 is the lease") + " AND id = " + fixedID("mayfly migrations of "+keyspace)
}

// fixedID returns an id in the form of a version 5 UUID that depends only on the name.
func fixedID(name string) string {
	sum := sha256.Sum256([]byte(name))
	sum[6], sum[8] = sum[6]&0x0f|0x50, sum[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[0:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

func createKeyspace(o Options) string {
	return fmt.Sprintf("CREATE KEYSPACE IF NOT EXISTS %s WITH replication = %s AND durable_writes = true", o.Keyspace, wantedReplication(o))
}

// pending returns the steps that are not done. It refuses a ledger of another
// format.
func pending(all []migration, done map[int]string) (todo []migration, err error) {
	known := map[int]bool{}
	for _, m := range all {
		known[m.number] = true
		if _, there := done[m.number]; !there {
			todo = append(todo, m)
		}
	}
	for number := range done {
		switch {
		case known[number] || number >= firstShared: // a shared table that a newer program needs is harmless
		case number < ledgerFormat:
			return nil, mayfly.Errorf(mayfly.Invalid, "the ledger has format %d, which this program does not read; it reads format %d", number, ledgerFormat).
				WithHint("name another keyspace, or drop this one")
		default:
			return nil, mayfly.Errorf(mayfly.Invalid, "the schema is newer than this program").WithHint("start the version that made it, or a later one")
		}
	}
	return todo, nil
}
