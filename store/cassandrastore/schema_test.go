package cassandrastore

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/test/tables"
)

func TestAServerThatIsTooOldIsNotRecent(t *testing.T) {
	for version, want := range map[string]bool{
		"5.0.9": true, "5.0-beta1": true, "6.0": true, "10.1.2": true, "4.1.7": false, "3.11": false, "": false, "x": false,
	} {
		if recent(version) != want {
			t.Errorf("%q is recent: %t", version, !want)
		}
	}
}

func TestMigrationsHaveNumbersOfTheirOwnInOrder(t *testing.T) {
	all := migrations("k", tables.All())
	for i := 1; i < len(all); i++ {
		if all[i].number <= all[i-1].number {
			t.Errorf("migration %d comes after %d", all[i].number, all[i-1].number)
		}
	}
	done := map[int]string{}
	if todo, err := pending(all, done); len(todo) != len(all) || err != nil {
		t.Errorf("of an empty keyspace %d of %d are to do: %v", len(todo), len(all), err)
	}
	for _, m := range all[1:] {
		done[m.number] = m.name
	}
	if todo, _ := pending(all, done); len(todo) != 1 || todo[0].number != ledgerFormat {
		t.Errorf("one was left out, to do are %v", todo)
	}
	done[firstTable+255] = "a table that a newer program declares"
	if _, err := pending(all, done); err != nil {
		t.Errorf("a table more is refused: %v", err)
	}
	for _, other := range []int{ledgerFormat - 1, ledgerFormat + 1} {
		done := maps.Clone(done)
		done[other] = "another ledger"
		var refused *mayfly.Error
		if _, err := pending(all, done); !errors.As(err, &refused) || refused.Kind != mayfly.Invalid || refused.Hint == "" {
			t.Errorf("a ledger of format %d is not refused with a hint: %v", other, err)
		}
	}
}

func TestAKeyspaceIsMadeAsTheOptionsSay(t *testing.T) {
	for want, o := range map[string]Options{
		"{'class': 'SimpleStrategy', 'replication_factor': 2}":      {Keyspace: "k", Copies: 2},
		"{'class': 'NetworkTopologyStrategy', 'a': 3, 'b-east': 1}": {Keyspace: "k", DataCentres: map[string]int{"b-east": 1, "a": 3}},
	} {
		if text := createKeyspace(o); !strings.Contains(text, want) {
			t.Errorf("%s\nhas not %s", text, want)
		}
	}
}
