//go:build servers

package cassandrastore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/store"
)

func TestNodesThatStartAtOnceCreateOneSchema(t *testing.T) {
	t.Parallel()
	keyspace := fmt.Sprintf("mayfly_test_%08x", rand.Uint32())
	const nodes = 4
	stores := make([]*Store, nodes)
	var wg sync.WaitGroup
	for n := range nodes {
		wg.Go(func() {
			var err error
			if stores[n], err = Open(t.Context(), serverOptions(t, keyspace)); err != nil {
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
		for _, table := range allTables() {
			if _, err := s.Rows().Get(t.Context(), table, store.Key{Partition: "p"}); err != nil {
				t.Errorf("node %d: %v", n, err)
			}
		}
	}
	m := migrator{stores[0], "another", timesFor(0)}
	done, err := m.done(t.Context())
	if want := len(migrations(keyspace, allTables())); err != nil || len(done) != want {
		t.Errorf("%d migrations are done, want %d: %v", len(done), want, err)
	}
	if held, err := m.hold(t.Context()); err != nil || !held {
		t.Errorf("the lease was not given back: held %t, %v", held, err)
	}
	if held, err := (migrator{stores[1], "a third", timesFor(0)}).hold(t.Context()); err != nil || held {
		t.Errorf("two hold the lease: %t, %v", held, err)
	}

	t.Run("without a quorum nothing is answered and nothing written", func(t *testing.T) { loseQuorum(t, stores[0]) })

	// A step below the tables that this program does not know ends it.
	future := "INSERT INTO migrations (scope, number, name) VALUES ('schema', 99, 'of the future') IF NOT EXISTS"
	if err := stores[0].query(setUp, future).ExecContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s, err := Open(t.Context(), serverOptions(t, keyspace)); !errors.Is(err, mayfly.Invalid) {
		t.Errorf("a newer schema is opened: %v, %v", s, err)
	}
}

func TestATableMayTakeLongerThanARequest(t *testing.T) {
	t.Parallel()
	o, err := serverOptions(t, fmt.Sprintf("mayfly_test_%08x", rand.Uint32())).complete()
	if err != nil {
		t.Fatal(err)
	}
	o.Timeout = 2 * time.Millisecond
	if err := prepareSchema(t.Context(), o); err != nil {
		t.Fatal(err)
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
	_, rangeErr := s.Rows().Range(ctx, engine.Owners, store.Range{Partition: "p", Limit: 1})
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

func TestRewrittenTablesAreNotCompactedInTimeWindows(t *testing.T) {
	s := openTestStore(t)
	iter := s.query(setUp, "SELECT table_name, compaction, default_time_to_live FROM system_schema.tables WHERE keyspace_name = ?", testKeyspace).IterContext(t.Context())
	var name string
	var compaction map[string]string
	var lasts, tables int
	for iter.Scan(&name, &compaction, &lasts) {
		tables++
		windows := strings.HasSuffix(compaction["class"], "TimeWindowCompactionStrategy")
		if windows != (name == swappedOnceRows.String()) || !windows && !strings.HasSuffix(compaction["class"], "UnifiedCompactionStrategy") {
			t.Errorf("%s is packed by %s", name, compaction["class"])
		}
		if lasts != 0 {
			t.Errorf("%s has a TTL of its own: %d s", name, lasts)
		}
	}
	if err := iter.Close(); err != nil || tables != 7+len(sharings(allTables())) {
		t.Errorf("%d tables, want %d: %v", tables, 7+len(sharings(allTables())), err)
	}
}
