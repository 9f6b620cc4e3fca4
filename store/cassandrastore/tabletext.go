package cassandrastore

import (
	"fmt"

	"github.com/mayflyhq/mayfly/store"
)

// tableText is the text of the statements of one declared table.
type tableText struct {
	get string

	// of a plain table
	put, remove, drop string

	// of a swapped table. A row is there exactly when its value is: updates make
	// no row of their own that would outlive a value with a TTL.
	begin, replace, end string
}

func newTableText(t store.Table) *tableText {
	name := tableName(t)
	text := &tableText{get: fmt.Sprintf("SELECT value FROM %s WHERE partition = ? AND sort = ?", name)}
	if t.Declared().Mode == store.Plain {
		text.put = fmt.Sprintf("INSERT INTO %s (partition, sort, value) VALUES (?, ?, ?) USING TIMESTAMP ? AND TTL ?", name)
		text.remove = fmt.Sprintf("DELETE FROM %s USING TIMESTAMP ? WHERE partition = ? AND sort = ?", name)
		text.drop = fmt.Sprintf("DELETE FROM %s USING TIMESTAMP ? WHERE partition = ?", name)
		return text
	}
	update := fmt.Sprintf("UPDATE %s USING TTL ? SET value = ? WHERE partition = ? AND sort = ?", name)
	text.begin = update + " IF value = null" // a comparison with a value never matches absence (trap 2)
	text.replace = update + " IF value = ?"
	text.end = fmt.Sprintf("DELETE FROM %s WHERE partition = ? AND sort = ? IF value = ?", name)
	return text
}

// tableName keeps declared tables apart from our own.
func tableName(t store.Table) string { return "t_" + t.Declared().Name }

// rangeText is the text that reads r.
func rangeText(t store.Table, r store.Range) string {
	text := fmt.Sprintf("SELECT sort, value FROM %s WHERE partition = ?", tableName(t))
	if r.From != "" {
		text += " AND sort >= ?"
	}
	if r.To != "" {
		text += " AND sort < ?"
	}
	if r.Reverse {
		text += " ORDER BY sort DESC"
	}
	return text + " LIMIT ?"
}
