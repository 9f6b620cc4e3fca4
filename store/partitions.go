package store

import (
	"context"

	"github.com/mayflyhq/mayfly"
)

// PartitionsOf lists the partitions of tables, one table after the other, as
// Rows.Partitions does of one. It returns the table that the partitions are of.
func PartitionsOf(ctx context.Context, rows Rows, tables []Table, cursor string, limit int) (t Table, partitions []string, next string, err error) {
	at := 0
	if cursor != "" {
		if at = int(cursor[0]); at >= len(tables) {
			return Table{}, nil, "", mayfly.Errorf(mayfly.Invalid, "the cursor is not one of this list").WithHint("begin without a cursor")
		}
		cursor = cursor[1:]
	}
	t = tables[at]
	if partitions, next, err = rows.Partitions(ctx, t, cursor, limit); err != nil {
		return t, nil, "", err
	}
	switch {
	case next != "":
		next = string([]byte{byte(at)}) + next
	case at+1 < len(tables):
		next = string([]byte{byte(at + 1)})
	}
	return t, partitions, next, nil
}
