package cassandrastore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

func TestNodesThatStartAtOnceMakeOneSchema(t *testing.T) {
	needServer(t)
	keyspace := fmt.Sprintf("mayfly_test_%08x", rand.Uint32())
	made[keyspace] = true
	const nodes = 4
	stores := make([]*Store, nodes)
	var wg sync.WaitGroup
	for n := range nodes {
		wg.Go(func() {
			var err error
			if stores[n], err = Open(t.Context(), serverOptions(keyspace)); err != nil {
				t.Errorf("node %d: %v", n, err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	for n, s := range stores {
		defer s.Close()
		insert(t, s, births(t, 1, "24h")...)
		insert(t, s, births(t, 1, "never")...)
		for _, table := range store.Tables() {
			if _, err := s.Rows().Get(t.Context(), table, store.Key{Partition: "p"}); err != nil {
				t.Errorf("node %d: %v", n, err)
			}
		}
	}
	m := migrator{Store: stores[0], holder: "another"}
	done, err := m.done(t.Context())
	if err != nil || len(done) != 1+len(store.Tables()) {
		t.Errorf("%d migrations are done, want %d: %v", len(done), 1+len(store.Tables()), err)
	}
	if held, err := m.hold(t.Context()); err != nil || !held {
		t.Errorf("the lease was not given back: held %t, %v", held, err)
	}
	if held, err := (migrator{Store: stores[1], holder: "a third"}).hold(t.Context()); err != nil || held {
		t.Errorf("two hold the lease: %t, %v", held, err)
	}

	t.Run("without a quorum nothing is answered and nothing written", func(t *testing.T) { loseQuorum(t, stores[0]) })

	// A step below the tables that this program does not know ends it.
	future := "INSERT INTO migrations (scope, number, name) VALUES ('schema', 99, 'of the future') IF NOT EXISTS"
	if err := stores[0].query(setUp, future).ExecContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s, err := Open(t.Context(), serverOptions(keyspace)); !errors.Is(err, mayfly.Invalid) {
		t.Errorf("a newer schema is opened: %v, %v", s, err)
	}
}

// loseQuorum asks for more copies than there are nodes, which to everything but a
// conditional write looks as if nodes were down; those agree among the nodes that
// there are.
func loseQuorum(t *testing.T, s *Store) {
	copies := func(n int) {
		t.Helper()
		alter := fmt.Sprintf("ALTER KEYSPACE %s WITH replication = {'class': 'SimpleStrategy', 'replication_factor': %d}", s.opts.Keyspace, n)
		if err := s.query(setUp, alter).ExecContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := (migrator{Store: s}).agree(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	there, fresh := births(t, 1, "24h")[0], births(t, 1, "24h")[0]
	insert(t, s, there)
	copies(9)
	var b store.Batch
	b.Insert(fresh)
	ctx := t.Context()
	_, getErr := s.Ledger().Get(ctx, there.Item.ID)
	_, bodyErr := s.Ledger().Body(ctx, there.Item.ID)
	_, walkErr := s.Ledger().Walk(ctx, store.Stretch{Minute: there.Item.ID.Minute(), Shard: there.Item.ID.Shard(), To: there.Item.ID.Deadline()}, 10)
	_, changeErr := s.Ledger().Transition(ctx, []mayfly.Change{expire(there.Item)})
	_, rangeErr := s.Rows().Range(ctx, store.Owners, store.Range{Partition: "p", Limit: 1})
	for what, err := range map[string]error{
		"get": getErr, "body": bodyErr, "walk": walkErr, "transition": changeErr, "range": rangeErr,
		"commit": s.Writer().Commit(ctx, &b), "remove": s.Ledger().Remove(ctx, there.Item.ID),
	} {
		if !errors.Is(err, mayfly.Unavailable) {
			t.Errorf("%s: %v, want Unavailable", what, err)
		}
		if failed := (*store.StageError)(nil); what == "commit" && (!errors.As(err, &failed) || failed.Stage != 0) {
			t.Errorf("commit: %v does not name its stage", err)
		}
	}
	copies(s.opts.Copies)
	found, err := s.Ledger().Get(ctx, there.Item.ID, fresh.Item.ID)
	if err != nil || found[0].Item != there.Item || found[1].Found {
		t.Errorf("afterwards the rows are %+v, %v", found, err)
	}
}

func TestAServerThatIsTooOldIsNotRecent(t *testing.T) {
	for version, want := range map[string]bool{
		"5.0.9": true, "5.0-beta1": true, "6.0": true, "10.1.2": true, "4.1.7": false, "3.11": false, "": false, "x": false,
	} {
		if recent(version) != want {
			t.Errorf("%q is recent: %t", version, !want)
		}
	}
}

func TestTheServerPacksRewrittenTablesWithoutTimeWindows(t *testing.T) {
	s := openHouse(t)
	iter := s.query(setUp, "SELECT table_name, compaction, default_time_to_live FROM system_schema.tables WHERE keyspace_name = ?", house).IterContext(t.Context())
	var name string
	var compaction map[string]string
	var lasts, tables int
	for iter.Scan(&name, &compaction, &lasts) {
		tables++
		windows := strings.HasSuffix(compaction["class"], "TimeWindowCompactionStrategy")
		if windows != (name == "t_idempotency") || !windows && !strings.HasSuffix(compaction["class"], "UnifiedCompactionStrategy") {
			t.Errorf("%s is packed by %s", name, compaction["class"])
		}
		if lasts != 0 {
			t.Errorf("%s has a TTL of its own: %d s", name, lasts)
		}
	}
	if err := iter.Close(); err != nil || tables != 5+len(store.Tables()) {
		t.Errorf("%d tables, want %d: %v", tables, 5+len(store.Tables()), err)
	}
}

func TestMigrationsHaveNumbersOfTheirOwnInOrder(t *testing.T) {
	all := migrations("k")
	for i := 1; i < len(all); i++ {
		if all[i].number <= all[i-1].number {
			t.Errorf("migration %d comes after %d", all[i].number, all[i-1].number)
		}
	}
	done := map[int]string{}
	if todo, newer := pending(all, done); len(todo) != len(all) || newer {
		t.Errorf("of nothing %d are to do (newer: %t)", len(todo), newer)
	}
	for _, m := range all[1:] {
		done[m.number] = m.name
	}
	if todo, _ := pending(all, done); len(todo) != 1 || todo[0].number != 1 {
		t.Errorf("one was left out, to do are %v", todo)
	}
	done[firstTable+255] = "a table that a newer program declares"
	if _, newer := pending(all, done); newer {
		t.Error("a table more is a ledger of another kind")
	}
	done[2] = "another ledger"
	if _, newer := pending(all, done); !newer {
		t.Error("a newer ledger is not noticed")
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
