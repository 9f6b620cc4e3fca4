package store_test

import (
	"errors"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/tables"
)

// Numbers are part of the stored format: they never change and are never reused.
func TestTheNumbersOfTablesAreFixed(t *testing.T) {
	want := map[uint8]string{
		1: "owners", 2: "idempotency", 3: "uploads", 4: "restored", 5: "reminders", 6: "leases", 7: "watermarks", 8: "marks",
		9: "audit", 10: "dead_letters", 11: "erased", 12: "runs", 13: "relations", 14: "related", 15: "families", 16: "views",
		17: "seen", 18: "renditions", 19: "reservations", 20: "dead_events", 21: "settings", 22: "erasures", 23: "view_counts",
		24: "rings", 25: "restored_days", 26: "claims", 27: "open_uploads", 28: "denied_tokens", 30: "edge_purges",
		31: "kv_namespaces", 32: "kv_owned", 33: "kv_removed", 34: "following", 35: "followers", 36: "recounts", 37: "profiles", 38: "handles", 39: "held",
		40: "posts", 41: "replies", 42: "likes", 43: "liked", 44: "reposts", 45: "reposted", 46: "post_counts", 47: "post_marks", 48: "avatars",
	}
	for _, table := range tables.All() {
		if want[table.Number()] != table.String() {
			t.Errorf("table %s has number %d", table, table.Number())
		}
	}
	if len(want) != len(tables.All()) {
		t.Errorf("%d tables, want %d", len(tables.All()), len(want))
	}
}

func TestATableSetRefusesBadDeclarations(t *testing.T) {
	good := store.Declaration{Name: "viewers", Number: 99, Purpose: "story → who saw it", Mode: store.Plain, Erasure: store.NoUser}
	one := store.DeclareTable(good)
	if _, err := store.NewTableSet([]store.Table{one}); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*store.Declaration){
		"no name":           func(d *store.Declaration) { d.Name = "" },
		"no number":         func(d *store.Declaration) { d.Number = 0 },
		"no purpose":        func(d *store.Declaration) { d.Purpose = "" },
		"no write mode":     func(d *store.Declaration) { d.Mode = 0 },
		"no erasure rule":   func(d *store.Declaration) { d.Erasure = 0 },
		"an unknown rule":   func(d *store.Declaration) { d.Erasure = store.Kept + 1 },
		"an unknown mirror": func(d *store.Declaration) { d.Mirror = "seen" },
		"a mirror, no key":  func(d *store.Declaration) { d.Mirror = "viewers" },
	} {
		d := good
		spoil(&d)
		if _, err := store.NewTableSet([]store.Table{store.DeclareTable(d)}); !errors.Is(err, mayfly.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, d := range []store.Declaration{{Name: "viewers", Number: 98}, {Name: "others", Number: 99}} {
		d.Purpose, d.Mode, d.Erasure = "x", store.Plain, store.NoUser
		if _, err := store.NewTableSet([]store.Table{one, store.DeclareTable(d)}); !errors.Is(err, mayfly.Invalid) {
			t.Errorf("two tables with the same name or number: %v", err)
		}
	}
}

func TestWriteModesNeverMix(t *testing.T) {
	key := store.Key{Partition: "p", Clustering: "s"}
	declared, err := store.NewTableSet(tables.All())
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range tables.All() {
		var b store.Batch
		b.Put(table, key, nil, 0)
		plain := table.Declared().Mode == store.Plain
		if (declared.CheckBatch(&b) == nil) != plain || (declared.CheckSwap(table, key) == nil) == plain {
			t.Errorf("%s: put %v, swap %v", table, declared.CheckBatch(&b), declared.CheckSwap(table, key))
		}
		if err := declared.CheckRead(table, key); err != nil {
			t.Errorf("%s: read %v", table, err)
		}
		for _, bad := range []store.Key{{}, {Clustering: "s"}, {Partition: string(make([]byte, store.MaxPartition+1))}, {Partition: "p", Clustering: string(make([]byte, store.MaxClustering+1))}} {
			if !errors.Is(declared.CheckRead(table, bad), mayfly.Invalid) || !errors.Is(declared.CheckSwap(table, bad), mayfly.Invalid) {
				t.Errorf("%s takes a key of %d and %d bytes", table, len(bad.Partition), len(bad.Clustering))
			}
		}
	}
	for _, other := range []store.Table{{}, store.DeclareTable(store.Declaration{Name: "owners", Number: 1, Purpose: "x", Mode: store.Plain, Erasure: store.NoUser})} {
		var b store.Batch
		b.Put(other, key, nil, 0)
		if !errors.Is(declared.CheckRead(other, key), mayfly.Invalid) || !errors.Is(declared.CheckSwap(other, key), mayfly.Invalid) || !errors.Is(declared.CheckBatch(&b), mayfly.Invalid) {
			t.Errorf("a table that was not given is not refused: %v", other)
		}
	}
}

func TestResultsHaveWords(t *testing.T) {
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
