package accounterase

import (
	"errors"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

func TestEveryTableHasAnErasureRuleThatSomebodyFollows(t *testing.T) {
	listed := map[store.Table]bool{}
	for _, table := range store.Tables() {
		listed[table] = true
		if err := covered(table, table.Declared()); err != nil {
			t.Error(err)
		}
	}
	for n := range 256 { // one that is declared and not listed would be passed over
		if table := store.Table(n); table.Declared() != (store.Declaration{}) && !listed[table] {
			t.Errorf("table %s is not in store.Tables", table)
		}
	}
}

func TestATableWithoutAnErasureRuleIsRefused(t *testing.T) {
	const next store.Table = 99
	for _, rule := range []store.Erasure{0, store.PartitionIsItem, store.NamesItems, store.Kept + 1} {
		d := store.Declaration{Name: "viewers", Purpose: "story → who saw it", Mode: store.Plain, Erasure: rule}
		if err := covered(next, d); !errors.Is(err, mayfly.Invalid) {
			t.Errorf("rule %d: %v", rule, err)
		}
	}
}
