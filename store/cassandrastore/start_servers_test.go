//go:build servers

package cassandrastore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store/storetest"
)

func TestAKeyspaceWithFewerCopiesIsNotOpened(t *testing.T) {
	s := openTestStore(t)
	o := serverOptions(t, testKeyspace)
	o.Copies = s.opts.Copies + 1
	other, err := Open(t.Context(), o)
	if err == nil {
		t.Fatal("it is opened", other.Close())
	}
	ours := (*mayfly.Error)(nil)
	if !errors.As(err, &ours) || ours.Kind != mayfly.Invalid ||
		!strings.Contains(ours.Hint, fmt.Sprintf("ALTER KEYSPACE %s WITH replication = {'class': 'SimpleStrategy', 'replication_factor': %d}", testKeyspace, o.Copies)) {
		t.Errorf("%v, want Invalid with the statement that fixes it", err)
	}
}

func TestEveryNodeReportsTheRequiredSettings(t *testing.T) {
	var log storetest.LogBuffer
	s := openWith(t, func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	reported := migrator{Store: s}.settings(t.Context())
	if len(reported) != len(s.session.GetHosts()) {
		t.Errorf("%d nodes of %d tell their settings", len(reported), len(s.session.GetHosts()))
	}
	for node, has := range reported {
		if has["commitlog_sync"] != "batch" || has["paxos_variant"] != "v2" { // as deploy/servers starts them
			t.Errorf("node %s has %v", node, has)
		}
	}
	if strings.Contains(log.String(), "level=WARN") {
		t.Errorf("it warns of a server that is as it should be:\n%s", log.String())
	}
}

func TestWorkOnTheSchemaEndsBeforeItsLease(t *testing.T) {
	t.Parallel()
	o, err := serverOptions(t, fmt.Sprintf("mayfly_test_%08x", rand.Uint32())).complete()
	if err != nil {
		t.Fatal(err)
	}
	session, err := connect(t.Context(), o, "")
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	s := newStore(o, session)
	m := migrator{s, "one", timesFor(o.Timeout)}
	if err := m.ground(t.Context()); err != nil {
		t.Fatal(err)
	}
	leftOf := func(ctx context.Context) (left time.Duration) {
		t.Helper()
		var seconds int
		read := "SELECT TTL(name) FROM " + o.Keyspace + ".migrations WHERE scope = ? AND number = ?"
		if err := m.query(settleDoubt, read, schemaScope, leaseNumber).ScanContext(ctx, &seconds); err != nil {
			t.Fatal(err)
		}
		return time.Duration(seconds) * time.Second
	}
	short := m
	short.times.lease = 5 * time.Second
	if held, err := short.hold(t.Context()); err != nil || !held {
		t.Fatalf("held %t, %v", held, err)
	}
	err = m.underLease(t.Context(), func(ctx context.Context) error {
		ends, bounded := ctx.Deadline()
		if lease := leftOf(ctx); !bounded || time.Until(ends) >= lease {
			t.Errorf("the work may take %s more, its lease lasts %s", time.Until(ends), lease)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	err = migrator{s, "another", m.times}.underLease(t.Context(), func(context.Context) error {
		t.Error("another works while one has the lease")
		return nil
	})
	if !errors.Is(err, mayfly.Unavailable) {
		t.Errorf("without the lease: %v", err)
	}
}

// addDeadNode lists a node in the ring that has been down for long: its schema is an
// old one. So a ring of one has a node that is down too.
func addDeadNode(t *testing.T, s *Store) {
	const dead = "127.0.0.99"
	everywhere := func(ctx context.Context, statement string, values ...any) {
		t.Helper()
		for _, host := range s.session.GetHosts() {
			if !host.IsUp() {
				continue
			}
			if err := s.query(setUp, statement, values...).Consistency(gocql.One).SetHostID(host.HostID()).ExecContext(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Cleanup(func() {
		everywhere(context.WithoutCancel(t.Context()), "DELETE FROM system.peers_v2 WHERE peer = ? AND peer_port = 7000", dead)
	})
	everywhere(t.Context(), `INSERT INTO system.peers_v2 (peer, peer_port, data_center, host_id, native_address, native_port, rack, release_version, schema_version, tokens)
		VALUES (?, 7000, 'datacenter1', ?, ?, ?, 'rack1', '5.0.0', ?, ?)`,
		dead, gocql.MustRandomUUID(), dead, s.opts.Port, gocql.MustRandomUUID(), []string{"1"})
}

func TestASchemaIsCreatedWhileANodeIsDown(t *testing.T) {
	addDeadNode(t, openTestStore(t))
	o := serverOptions(t, fmt.Sprintf("mayfly_test_%08x", rand.Uint32()))
	begun := time.Now()
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatalf("after %s: %v", time.Since(begun), err)
	}
	defer s.Close()
	took := time.Since(begun)
	if took > defaultPatience/2 {
		t.Errorf("it takes %s of the %s that it has", took, defaultPatience)
	}
	storetest.Proof(t, "a first start while a node is down", "seconds", int(took.Seconds()))
	insert(t, s, births(t, 1, "24h")...)
}
