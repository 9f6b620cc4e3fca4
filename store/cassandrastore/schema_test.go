package cassandrastore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/tables"
)

func TestAnOldServerIsNotRecent(t *testing.T) {
	for version, want := range map[string]bool{
		"5.0.9": true, "5.0-beta1": true, "6.0": true, "10.1.2": true, "4.1.7": false, "3.11": false, "": false, "x": false,
	} {
		if recent(version) != want {
			t.Errorf("%q is recent: %t", version, !want)
		}
	}
}

func TestMigrationsHaveAscendingNumbers(t *testing.T) {
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
	done[firstShared+255] = "a shared table that a newer program needs"
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

func TestASharedTableSuitsAllOfItsTables(t *testing.T) {
	for _, table := range tables.All() {
		d, in := table.Declared(), sharingOf(table)
		text, name := in.create("k"), in.String()
		if plain := d.Mode == store.Plain; strings.HasPrefix(name, "rows_plain") != plain || strings.HasPrefix(name, "rows_swapped") == plain {
			t.Errorf("%s, mode %d, is in %s", table, d.Mode, name)
		}
		if strings.Contains(text, "TimeWindow") != d.WrittenOnce {
			t.Errorf("%s, written once %t: %s", table, d.WrittenOnce, text)
		}
		if strings.Contains(text, "gc_grace_seconds") != (d.TimeToLive != 0) {
			t.Errorf("%s, rows live for %s: %s", table, d.TimeToLive, text)
		}
	}
	if n := len(sharings(tables.All())); n < 3 || n > 6 {
		t.Errorf("%d shared tables", n)
	}
}

func TestAKeyspaceIsCreatedAsTheOptionsSay(t *testing.T) {
	for want, o := range map[string]Options{
		"{'class': 'SimpleStrategy', 'replication_factor': 2}":      {Keyspace: "k", Copies: 2},
		"{'class': 'NetworkTopologyStrategy', 'a': 3, 'b-east': 1}": {Keyspace: "k", DataCentres: map[string]int{"b-east": 1, "a": 3}},
	} {
		if text := createKeyspace(o); !strings.Contains(text, want) {
			t.Errorf("%s\nhas not %s", text, want)
		}
	}
}

func TestTheLeaseOutlastsEveryStatementOfTheSchema(t *testing.T) {
	for _, request := range []time.Duration{
		0, 2 * time.Millisecond, defaultTimeout, statementTime, statementTime + 1, defaultPatience, time.Hour + time.Millisecond,
	} {
		times := timesFor(request)
		ttl := time.Duration(times.seconds()) * time.Second
		if times.statement < request || times.statement < statementTime {
			t.Errorf("requests of %s: a statement may take %s only", request, times.statement)
		}
		if ttl < times.statement+leaseMargin {
			t.Errorf("requests of %s: the lease lasts %s, a statement may take %s", request, ttl, times.statement)
		}
	}
}

func TestTheLeaseIsReleasedOnlyAfterAnAnswer(t *testing.T) {
	for err, want := range map[error]bool{
		nil: true,
		fmt.Errorf("a table: %w", &gocql.RequestErrInvalid{}): true,
		fmt.Errorf("a table: %w", gocql.ErrTimeoutNoResponse): false,
		fmt.Errorf("a table: %w", context.DeadlineExceeded):   false,
		fmt.Errorf("a table: %w", gocql.ErrConnectionClosed):  false,
	} {
		if answered(err) != want {
			t.Errorf("%v: answered %t, want %t", err, !want, want)
		}
	}
}

func TestAStartWaitsForBusyServersAndNotForUnavailableOnes(t *testing.T) {
	for code, want := range map[int]bool{
		gocql.ErrCodeServer: true, gocql.ErrCodeInvalid: true, gocql.ErrCodeReadTimeout: true, gocql.ErrCodeWriteTimeout: true, gocql.ErrCodeCASWriteUnknown: true,
		gocql.ErrCodeUnavailable: false, gocql.ErrCodeUnauthorized: false, gocql.ErrCodeSyntax: false,
	} {
		if unsettled(fmt.Errorf("the schema: %w", reported(code))) != want {
			t.Errorf("answer %#x is unsettled: %t", code, !want)
		}
	}
}

// reported is an answer of a server.
type reported int

func (t reported) Code() int       { return int(t) }
func (t reported) Message() string { return "no" }
func (t reported) Error() string   { return t.Message() }

func TestEachDifferingSettingIsLoggedOnce(t *testing.T) {
	good := map[string]string{"commitlog_sync": "batch", "paxos_variant": "v2"}
	for name, c := range map[string]struct {
		reported map[string]map[string]string
		want     []string // one for each warning, in order
	}{
		"as it should be":               {map[string]map[string]string{"n1": good}, nil},
		"groups are synced, too":        {map[string]map[string]string{"n1": {"commitlog_sync": "group", "paxos_variant": "v2"}}, nil},
		"no node reports":               {nil, nil},
		"a server without the settings": {map[string]map[string]string{"n1": {}}, nil},
		"Cassandra's own": {
			map[string]map[string]string{"n1": {"commitlog_sync": "periodic", "paxos_variant": "v1"}},
			[]string{
				`setting=commitlog_sync is=[periodic] nodes=[n1] set="commitlog_sync: batch in cassandra.yaml"`,
				`setting=paxos_variant is=[v1] nodes=[n1] set="paxos_variant: v2 in cassandra.yaml"`,
			},
		},
		"two nodes of three": {
			map[string]map[string]string{"n1": {"paxos_variant": "v1"}, "n2": good, "n3": {"paxos_variant": "v1"}},
			[]string{`setting=paxos_variant is=[v1] nodes="[n1 n3]"`},
		},
	} {
		var out bytes.Buffer
		m := migrator{Store: newStore(Options{Logger: slog.New(slog.NewTextHandler(&out, nil))}, nil)}
		m.warn(c.reported)
		if n := strings.Count(out.String(), "level=WARN"); n != len(c.want) {
			t.Errorf("%s: %d warnings, want %d\n%s", name, n, len(c.want), out.String())
		}
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: no warning says %s\n%s", name, want, out.String())
			}
		}
	}
}
