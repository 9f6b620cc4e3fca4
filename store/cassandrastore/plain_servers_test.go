//go:build servers

package cassandrastore

import (
	"fmt"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/accounterase"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/store"
)

func TestAPlainWriteThatArrivesAgainLateChangesNothing(t *testing.T) {
	s := openTestStore(t)
	key := engine.OwnerKey(mayfly.UserOf("late", fmt.Sprint(wall())), births(t, 1, "24h")[0].Item.ID)
	put := func(value string) store.Stage {
		return store.Stage{Puts: []store.Put{{Table: engine.Owners, Key: key, Value: []byte(value)}}}
	}
	remove := store.Stage{Deletes: []store.Delete{{Table: engine.Owners, Key: key}}}
	drop := store.Stage{Drops: []store.Drop{{Table: engine.Owners, Partition: key.Partition}}}
	var sent []task
	for i, step := range []struct {
		stage store.Stage
		want  string
	}{{put("a"), "a"}, {remove, ""}, {put("b"), "b"}, {drop, ""}, {put("c"), "c"}, {put("d"), "d"}, {remove, ""}, {put("e"), "e"}} {
		tasks := s.plainTasks(step.stage)
		for _, do := range append(tasks, sent...) {
			if err := do(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		sent = append(sent, tasks...)
		got, err := s.Rows().Get(t.Context(), engine.Owners, key)
		if err != nil || string(got[0]) != step.want || (got[0] == nil) != (step.want == "") {
			t.Errorf("after step %d the row is %q, want %q: %v", i, got[0], step.want, err)
		}
	}
}

func TestTablesThatShareATableDoNotShareRows(t *testing.T) {
	s := openTestStore(t)
	key := store.Key{Partition: fmt.Sprint("shared", wall()), Clustering: "s"}
	var drop store.Batch
	for _, table := range allTables() {
		if table.Declared().Mode == store.Plain {
			var b store.Batch
			b.Put(table, key, []byte(table.String()), wall().Add(time.Hour))
			if err := s.Writer().Commit(t.Context(), &b); err != nil {
				t.Fatal(err)
			}
		} else if swapped, current, err := s.Rows().Swap(t.Context(), table, key, nil, []byte(table.String()), 0); err != nil || !swapped {
			t.Fatalf("%s: swapped %t, there is %q: %v", table, swapped, current, err)
		}
	}
	drop.DeletePartition(engine.Owners, key.Partition)
	if err := s.Writer().Commit(t.Context(), &drop); err != nil {
		t.Fatal(err)
	}
	for _, table := range allTables() {
		want := table.String()
		if table == engine.Owners {
			want = ""
		}
		if got, err := s.Rows().Get(t.Context(), table, key); err != nil || string(got[0]) != want {
			t.Errorf("%s has the row of %q: %v", table, got[0], err)
		}
	}
}

func TestOnlyTablesThatMayBeReclaimedHaveATTL(t *testing.T) {
	s := openTestStore(t)
	ahead := wall().Add(time.Hour)
	for _, table := range allTables() {
		key := store.Key{Partition: fmt.Sprint("ttl", wall()), Clustering: "s"}
		if table.Declared().Mode == store.Plain {
			var b store.Batch
			b.Put(table, key, []byte("v"), ahead)
			if err := s.Writer().Commit(t.Context(), &b); err != nil {
				t.Fatal(err)
			}
		} else if swapped, _, err := s.Rows().Swap(t.Context(), table, key, nil, []byte("v"), ahead); err != nil || !swapped {
			t.Fatalf("%s: swapped %t, %v", table, swapped, err)
		}
		var left *int
		read := "SELECT TTL(value) FROM " + sharingOf(table).String() + " WHERE partition = ? AND sort = ?"
		if err := s.query(readRows, read, partitionKey(table, key.Partition), []byte(key.Clustering)).ScanContext(t.Context(), &left); err != nil {
			t.Fatal(err)
		}
		never := table == engine.Owners || table == remind.Reminders || table == accounterase.Pending || table == engine.Held
		switch {
		case never && left != nil:
			t.Errorf("%s has a TTL of %d s", table, *left)
		case !never && (left == nil || *left < 3600 || *left > 3600+660):
			t.Errorf("%s: the TTL is %v, want an hour and a little", table, left)
		}
	}
}

func TestARowSwappedWithoutAReclaimTimeAfterOneStays(t *testing.T) {
	s := openTestStore(t)
	key := store.Key{Partition: fmt.Sprint("kept", wall()), Clustering: "s"}
	steps := []struct {
		old, new []byte
		at       mayfly.Instant
	}{{nil, []byte("a"), wall().Add(time.Hour)}, {[]byte("a"), []byte("b"), 0}}
	for _, step := range steps {
		if swapped, _, err := s.Rows().Swap(t.Context(), account.Families, key, step.old, step.new, step.at); err != nil || !swapped {
			t.Fatalf("swapped %t, %v", swapped, err)
		}
	}
	var left *int
	read := "SELECT TTL(value) FROM " + sharingOf(account.Families).String() + " WHERE partition = ? AND sort = ?"
	if err := s.query(readRows, read, partitionKey(account.Families, key.Partition), []byte(key.Clustering)).ScanContext(t.Context(), &left); err != nil || left != nil {
		t.Errorf("the TTL is %v, want none: %v", left, err)
	}
}

// A birth that ends between its body and its row leaves a body that no row leads to.
func TestTheBodyOfAFailedBirthIsErased(t *testing.T) {
	s := openTestStore(t)
	b := births(t, 1, "24h")[0]
	id := b.Item.ID
	there := func() bool {
		t.Helper()
		found, err := s.Ledger().Body(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return found[0].Found
	}
	if err := s.bodyTask(b)(t.Context()); err != nil || !there() {
		t.Fatalf("it is not there: %v", err)
	}
	for range 2 {
		if err := s.Ledger().EraseBody(t.Context(), id, id); err != nil || there() {
			t.Fatalf("it is still there: %v", err)
		}
	}
	if err := s.bodyTask(b)(t.Context()); err != nil || there() { // its insert lands late
		t.Fatalf("it is there again: %v", err)
	}
}

func TestALeaseIsRenewedWhileEveryPigeonholeIsBusy(t *testing.T) {
	s := openTestStore(t)
	for _, lane := range s.lanes {
		lane <- struct{}{}
	}
	key := store.Key{Partition: "busy", Clustering: births(t, 1, "24h")[0].Item.ID.Short()}
	if swapped, _, err := s.Rows().Swap(t.Context(), walk.Leases, key, nil, []byte("mine"), 0); err != nil || !swapped {
		t.Errorf("swapped %t: %v", swapped, err)
	}
}
