package cassandrastore

import (
	"fmt"
	"strings"

	"github.com/mayflyhq/mayfly"
)

// hole is a partition of the ledger: a minute of a shard, by deadline of items
// that expire or by birth of items that never do.
type hole struct {
	eternal bool
	minute  int64
	shard   mayfly.Shard
}

// place is the primary key of an item's row, computed from its id (L2, L3).
type place struct {
	hole
	at int64 // deadline, or birth
	id mayfly.ID
}

func placeOf(id mayfly.ID) place {
	if !id.Expires() {
		return place{hole{true, int64(id.Birth().Minute()), id.Shard()}, int64(id.Birth()), id}
	}
	return place{hole{false, int64(id.Minute()), id.Shard()}, int64(id.Deadline()), id}
}

func (h hole) String() string {
	if h.eternal {
		return fmt.Sprintf("minute %d of birth, shard %d, never expiring", h.minute, h.shard)
	}
	return fmt.Sprintf("minute %d of shard %d", h.minute, h.shard)
}

// values returns the first values of every statement about a place.
func (h hole) values() []any           { return []any{h.minute, int8(h.shard)} }
func (p place) values() []any          { return append(p.hole.values(), p.at, p.id[:]) }
func (p place) with(more ...any) []any { return append(p.values(), more...) }

// form has the statements of one of the two tables of rows, which differ only in
// names.
type form struct {
	table, at string

	insert string // a birth
	update string // a transition
	remove string
	walk   string
}

func newForm(table, at string) *form {
	f := &form{table: table, at: at}
	row := fmt.Sprintf("minute = ? AND shard = ? AND %s = ? AND id = ?", at)
	// State and generation fence out old workers (L1). The row is in the condition too,
	// so that a refusal returns it.
	fence := "IF state = ? AND generation = ? AND row = ?"
	f.insert = fmt.Sprintf("INSERT INTO %s (minute, shard, %s, id, state, generation, row) VALUES (?, ?, ?, ?, ?, ?, ?) USING TIMESTAMP %d",
		table, at, stampBorn)
	f.update = fmt.Sprintf("UPDATE %s SET state = ?, generation = ?, row = ? WHERE %s %s", table, row, fence)
	f.remove = fmt.Sprintf("DELETE FROM %s WHERE %s %s", table, row, fence)
	f.walk = fmt.Sprintf("SELECT %s, id, row FROM %s WHERE minute = ? AND shard = ? AND (%s, id) > (?, ?) AND (%s) <= (?) LIMIT ?",
		at, table, at, at)
	return f
}

// read is the text that reads n rows of one partition by their keys.
func (f *form) read(n int) string {
	return fmt.Sprintf("SELECT %s, id, row FROM %s WHERE minute = ? AND shard = ? AND (%s, id) IN (%s)",
		f.at, f.table, f.at, strings.Repeat("(?, ?), ", n-1)+"(?, ?)")
}

// forms are the two tables of rows.
type forms struct{ items, eternal *form }

func newForms() forms {
	return forms{newForm("items", "deadline"), newForm("eternal", "birth")}
}

func (f forms) of(h hole) *form {
	if h.eternal {
		return f.eternal
	}
	return f.items
}
