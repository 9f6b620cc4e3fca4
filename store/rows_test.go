package store_test

import (
	"errors"
	"regexp"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

func TestEveryTableIsDeclaredWhole(t *testing.T) {
	word := regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)
	names, numbers := map[string]bool{}, map[store.Table]bool{}
	for _, table := range store.Tables() {
		d := table.Declared()
		if !word.MatchString(d.Name) || d.Purpose == "" || d.Name != table.String() {
			t.Errorf("table %d: %+v", table, d)
		}
		if d.Mode != store.Plain && d.Mode != store.Swapped {
			t.Errorf("%s has no write mode", table)
		}
		if d.Erasure < store.PartitionIsUser || d.Erasure > store.Kept {
			t.Errorf("%s does not say how a user's rows are found", table)
		}
		if names[d.Name] || numbers[table] || table == 0 {
			t.Errorf("%s: name or number %d is taken", table, table)
		}
		names[d.Name], numbers[table] = true, true
	}
	// And every declaration is listed: what a loop over Tables does not see is never erased.
	for n := range 256 {
		table := store.Table(n)
		if declared := table.Declared() != (store.Declaration{}); declared != numbers[table] {
			t.Errorf("table %d: declared %t, listed %t", n, declared, numbers[table])
		}
	}
}

// Numbers are part of the stored format.
func TestTheNumbersOfTablesAreFixed(t *testing.T) {
	for number, name := range map[store.Table]string{
		1: "owners", 2: "idempotency", 3: "uploads", 4: "restored", 5: "reminders", 6: "leases", 7: "watermarks", 8: "marks",
		9: "audit", 10: "dead_letters", 11: "erased",
	} {
		if number.String() != name {
			t.Errorf("table %d is %s, and was %s", number, number, name)
		}
	}
	if store.Table(250).String() != "table(250)" {
		t.Error(store.Table(250))
	}
}

func TestWriteModesNeverMix(t *testing.T) {
	key := store.Key{Partition: "p", Clustering: "s"}
	for _, table := range store.Tables() {
		var b store.Batch
		b.Put(table, key, nil, 0)
		plain := table.Declared().Mode == store.Plain
		if (b.Validate() == nil) != plain || (table.CheckSwap(key) == nil) == plain {
			t.Errorf("%s: put %v, swap %v", table, b.Validate(), table.CheckSwap(key))
		}
		if err := table.CheckRead(key); err != nil {
			t.Errorf("%s: read %v", table, err)
		}
		for _, bad := range []store.Key{{}, {Clustering: "s"}, {Partition: string(make([]byte, store.MaxPartition+1))}, {Partition: "p", Clustering: string(make([]byte, store.MaxClustering+1))}} {
			if !errors.Is(table.CheckRead(bad), mayfly.Invalid) || !errors.Is(table.CheckSwap(bad), mayfly.Invalid) {
				t.Errorf("%s takes a key of %d and %d bytes", table, len(bad.Partition), len(bad.Clustering))
			}
		}
	}
	if err := store.Table(99).CheckRead(key); !errors.Is(err, mayfly.Invalid) {
		t.Error(err)
	}
}

func TestVerdictsHaveWords(t *testing.T) {
	for v, want := range map[store.Result]string{
		store.Applied: "applied", store.Stale: "stale", store.Refused: "refused", store.Missing: "missing", store.InDoubt: "in doubt", 0: "none",
	} {
		if v.String() != want {
			t.Errorf("%d is %q", v, v)
		}
	}
	item := born(t, 3).Item
	if got := store.PositionOf(item); got.Deadline != item.ID.Deadline() || got.ID != item.ID {
		t.Errorf("%+v", got)
	}
}
