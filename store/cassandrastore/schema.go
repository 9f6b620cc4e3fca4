package cassandrastore

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/mayflyhq/mayfly/store"
)

// migration is one numbered step of the schema. Its statements may be run again.
// Numbers are never reused.
type migration struct {
	number     int
	name       string
	statements []string
}

// firstTable is where the numbers of declared tables begin: table t is made by
// migration firstTable + t. What is below changes the ledger.
const firstTable = 100

// migrations are all steps, in order, for a keyspace.
func migrations(keyspace string) []migration {
	all := []migration{{1, "the ledger", []string{
		// A pigeonhole is a partition; within it rows lie by deadline, so that a
		// walk reads what is due and nothing else (L3, trap 15).
		createTable(keyspace, "items", `minute bigint, shard tinyint, deadline bigint, id blob, state tinyint, generation bigint, row blob,
			PRIMARY KEY ((minute, shard), deadline, id)`, rewritten, "items that expire, by deadline"),
		createTable(keyspace, "eternal", `era bigint, shard tinyint, birth bigint, id blob, state tinyint, generation bigint, row blob,
			PRIMARY KEY ((era, shard), birth, id)`, rewritten, "items that never expire, by birth"),
		createTable(keyspace, "eras", `shard tinyint, era bigint, PRIMARY KEY (shard, era)`, rewritten, "which eras a shard has"),
		createTable(keyspace, "bodies", `id blob PRIMARY KEY, body blob`, rewritten, "immutable content of items"),
	}}}
	for _, t := range store.Tables() {
		all = append(all, migration{firstTable + int(t), "table " + t.String(), []string{
			createTable(keyspace, tableName(t), `partition blob, sort blob, value blob, PRIMARY KEY (partition, sort)`,
				compactionOf(t), t.Declared().Purpose),
		}})
	}
	return all
}

// How the server packs a table. Time windows never drop anything of a table whose
// rows are written again (trap 16).
const (
	rewritten   = `{'class': 'UnifiedCompactionStrategy', 'scaling_parameters': 'T4'}`
	writtenOnce = `{'class': 'TimeWindowCompactionStrategy', 'compaction_window_unit': 'HOURS', 'compaction_window_size': '2'}`
)

// compactionOf: of the tables whose rows all have a TTL only the idempotency keys
// are also written once and left alone; views and what was seen are deleted with
// their story.
func compactionOf(t store.Table) string {
	if t == store.Idempotency {
		return writtenOnce
	}
	return rewritten
}

func createTable(keyspace, name, columns, compaction, purpose string) string {
	return fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s.%s (%s) WITH compaction = %s AND comment = '%s'",
		keyspace, name, columns, compaction, strings.ReplaceAll(purpose, "'", "''"))
}

// createMigrations makes the table that the lease is in, so it is made without
// one: by its fixed id nodes that make it at once make the same table.
func createMigrations(keyspace string) string {
	return createTable(keyspace, "migrations", `scope text, number int, name text, PRIMARY KEY (scope, number)`,
		rewritten, "numbered steps of the schema; number 0 is the lease") + " AND id = " + fixedID("mayfly migrations of "+keyspace)
}

// fixedID is a version 5 look-alike that a name alone decides.
func fixedID(name string) string {
	sum := sha256.Sum256([]byte(name))
	sum[6], sum[8] = sum[6]&0x0f|0x50, sum[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[0:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

func createKeyspace(o Options) string {
	return fmt.Sprintf("CREATE KEYSPACE IF NOT EXISTS %s WITH replication = %s AND durable_writes = true", o.Keyspace, wantedReplication(o))
}

// pending are the steps that are not done, and whether done holds one that changes
// the ledger in a way that is not known here.
func pending(all []migration, done map[int]string) (todo []migration, newer bool) {
	known := map[int]bool{}
	for _, m := range all {
		known[m.number] = true
		if _, there := done[m.number]; !there {
			todo = append(todo, m)
		}
	}
	for number := range done {
		if !known[number] && number < firstTable {
			newer = true
		}
	}
	return todo, newer
}
