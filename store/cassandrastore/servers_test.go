//go:build servers

package cassandrastore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/conn"
	"github.com/mayflyhq/mayfly/store/pebblestore"
	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/tables"
)

// The real servers are those of docs/servers.md, one without TLS and one with it:
// `go run ./deploy/servers up cassandra`, and with --secure --prefix MAYFLY_SECURE.
// Without them a test of the files with this build tag fails.
const (
	plainServer  = "MAYFLY_TEST_CASSANDRA"
	secureServer = "MAYFLY_SECURE_CASSANDRA"
)

// testKeyspace is the keyspace that the tests of one run share: making one takes seconds.
var testKeyspace = fmt.Sprintf("mayfly_test_%08x", rand.Uint32())

func TestMain(m *testing.M) {
	code := m.Run()
	if err := dropKeyspaces(); err != nil {
		fmt.Fprintln(os.Stderr, "drop the keyspaces of the tests:", err)
		code = 1
	}
	os.Exit(code)
}

// made are the keyspaces that this run has made, and on which server.
var made sync.Map

func dropKeyspaces() (failed error) {
	made.Range(func(keyspace, server any) bool {
		failed = errors.Join(failed, dropKeyspace(server.(string), keyspace.(string)))
		return true
	})
	return failed
}

func dropKeyspace(server, keyspace string) error {
	o, err := optionsAt(server, keyspace).complete()
	if err != nil {
		return err
	}
	session, err := connect(context.Background(), o, "")
	if err != nil {
		return err
	}
	defer session.Close()
	return session.Query("DROP KEYSPACE IF EXISTS " + keyspace).Exec()
}

// serverOptions are the options for a keyspace that goes with the run.
func serverOptions(t testing.TB, keyspace string) Options {
	return optionsFor(t, plainServer, keyspace)
}

func optionsFor(t testing.TB, server, keyspace string) Options {
	t.Helper()
	if os.Getenv(server) == "" {
		t.Fatalf("%s is not set: docs/servers.md says how to start the server", server)
	}
	made.Store(keyspace, server)
	return optionsAt(server, keyspace)
}

// optionsAt are the options for the server that the environment names: its nodes
// (host:port, by commas, all with the same port), and with them a user, a password
// and the certificate of the authority if it has them.
func optionsAt(server, keyspace string) Options {
	o := Options{
		Tables: allTables(), Keyspace: keyspace, Now: wall, Log: noLog{}, Timeout: 20 * time.Second,
		Credentials: conn.Credentials{User: os.Getenv(server + "_USER"), Password: mayfly.Secret(os.Getenv(server + "_PASSWORD"))},
		Logger:      slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	}
	for address := range strings.SplitSeq(os.Getenv(server), ",") {
		host, port, err := net.SplitHostPort(address)
		if err == nil {
			o.Port, err = strconv.Atoi(port)
		}
		if err != nil {
			panic(fmt.Sprintf("%s is host:port, by commas: %v", server, err))
		}
		o.Hosts = append(o.Hosts, host)
	}
	o.Copies = min(3, len(o.Hosts))
	if file := os.Getenv(server + "_CA"); file != "" {
		authority, err := os.ReadFile(file)
		if err != nil {
			panic(err)
		}
		o.TLS = conn.TLS{Enabled: true, CA: authority}
	}
	return o
}

// openTestStore opens the keyspace of this run.
func openTestStore(t testing.TB) *Store { return openWith(t, nil) }

func openWith(t testing.TB, adjust func(*Options)) *Store {
	t.Helper()
	o := serverOptions(t, testKeyspace)
	if adjust != nil {
		adjust(&o)
	}
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// openSet is the store with the embedded log beside it.
func openSet(t *testing.T) store.Set {
	t.Helper()
	log, err := pebblestore.Open(pebblestore.Options{Tables: allTables(), FS: vfs.NewMem(), Dir: "log", MemtableBytes: 1 << 20, CacheBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
	s := openWith(t, func(o *Options) { o.Log = log.Log() })
	return store.Set{Writer: s.Writer(), Ledger: s.Ledger(), Rows: s.Rows(), Log: log.Log()}
}

func insert(t testing.TB, s *Store, births ...store.Birth) {
	t.Helper()
	var b store.Batch
	b.Insert(births...)
	if err := s.Writer().Commit(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
}

func itemsOf(births []store.Birth) []mayfly.Item {
	items := make([]mayfly.Item, len(births))
	for i, b := range births {
		items[i] = b.Item
	}
	return items
}

// advanced is the write of a change that is allowed.
func advanced(t testing.TB, item mayfly.Item, c mayfly.Change) write {
	t.Helper()
	after, err := mayfly.Advance(item, c)
	if err != nil {
		t.Fatal(err)
	}
	return write{before: item, after: after}
}

// allTables returns every table that a test may use.
func allTables() []store.Table { return append(tables.All(), storetest.Own()...) }
