//go:build servers

package cassandrastore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/mayflyhq/mayfly/store/storetest"
)

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

func TestASchemaIsMadeWhileANodeIsDown(t *testing.T) {
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
