package node

import (
	"slices"
	"testing"

	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/tables"
)

// A store that is opened with this list refuses a table without an erasure rule.
func TestEveryTableOfANodeHasAnErasureRule(t *testing.T) {
	if _, err := store.NewTableSet(Tables()); err != nil {
		t.Error(err)
	}
	if !slices.Equal(Tables(), tables.All()) {
		t.Error("tests open stores with other tables than a node does: see test/tables")
	}
}
