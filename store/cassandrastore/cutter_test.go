//go:build servers

package cassandrastore

import (
	"net"
	"strconv"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store/loop"
	"github.com/mayflyhq/mayfly/test/faultnet"
)

// awaitOpen waits until the store has connections again.
func awaitOpen(t testing.TB, s *Store) {
	t.Helper()
	for {
		_, err := s.Ledger().Get(t.Context(), mayfly.ID{})
		if err == nil {
			return
		}
		if loop.Rest(t.Context(), 10*time.Millisecond) != nil {
			t.Fatal(err)
		}
	}
}

// openCut opens the store through a line that fails. Of a ring it sees that one
// node: the others would be found past the line.
func openCut(t testing.TB) (*Store, *faultnet.Line) {
	t.Helper()
	openTestStore(t) // the schema is made without it
	o, err := serverOptions(t, testKeyspace).complete()
	if err != nil {
		t.Fatal(err)
	}
	c := faultnet.NewLine(t, net.JoinHostPort(o.Hosts[0], strconv.Itoa(o.Port)))
	_, port, err := net.SplitHostPort(c.Address())
	if err == nil {
		o.Port, err = strconv.Atoi(port)
	}
	if err != nil {
		t.Fatal(err)
	}
	o.Hosts, o.Connections = []string{"127.0.0.1"}, 3
	config, err := clusterConfig(o, o.Keyspace)
	if err != nil {
		t.Fatal(err)
	}
	config.HostFilter = gocql.WhiteListHostFilter(o.Hosts...)
	config.ReconnectInterval = 100 * time.Millisecond
	session, err := config.CreateSession()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(session.Close)
	return newStore(o, session), c
}
