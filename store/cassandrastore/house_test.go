package cassandrastore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/pebblestore"
)

// server names the environment variable that says where the server is. Without it
// what needs a real one is skipped, and the closing table lists it as not run.
const server = "MAYFLY_TEST_CASSANDRA"

// house is the keyspace that the tests of one run share: making one takes seconds.
var house = fmt.Sprintf("mayfly_test_%08x", rand.Uint32())

func TestMain(m *testing.M) {
	code := m.Run()
	if os.Getenv(server) != "" {
		if err := dropKeyspaces(); err != nil {
			fmt.Fprintln(os.Stderr, "drop the keyspaces of the tests:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// made are the keyspaces that this run has made.
var made = map[string]bool{}

func dropKeyspaces() error {
	for keyspace := range made {
		o, err := serverOptions(keyspace).complete()
		if err != nil {
			return err
		}
		session, err := connect(context.Background(), o, "")
		if err != nil {
			return err
		}
		err = session.Query("DROP KEYSPACE IF EXISTS " + keyspace).Exec()
		session.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func wall() mayfly.Instant { return mayfly.InstantOf(time.Now()) }

// serverOptions are the options for the server of the environment: its nodes
// (host:port, by commas, all with the same port), and with them a user, a password
// and the certificate of the authority if it has them.
func serverOptions(keyspace string) Options {
	o := Options{
		Keyspace: keyspace, Now: wall, Log: noLog{}, Timeout: 20 * time.Second,
		Credentials: Credentials{User: os.Getenv(server + "_USER"), Password: os.Getenv(server + "_PASSWORD")},
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
		o.TLS = &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
		o.TLS.RootCAs.AppendCertsFromPEM(authority)
	}
	return o
}

// noLog is for tests that append nothing.
type noLog struct{ store.Log }

func needServer(t testing.TB) {
	t.Helper()
	if os.Getenv(server) == "" {
		t.Skip("no Cassandra is named: start one by `go run ./deploy/servers up cassandra` and set " + server)
	}
}

// openHouse opens the keyspace of this run.
func openHouse(t testing.TB) *Store { return openWith(t, nil) }

func openWith(t testing.TB, adjust func(*Options)) *Store {
	t.Helper()
	needServer(t)
	o := serverOptions(house)
	if adjust != nil {
		adjust(&o)
	}
	made[o.Keyspace] = true
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
	needServer(t)
	log, err := pebblestore.Open(pebblestore.Options{FS: vfs.NewMem(), Dir: "log", MemtableBytes: 1 << 20, CacheBytes: 1 << 20})
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

const testBirth = mayfly.Instant(1_800_000_000_000)

// births are n stories of one pigeonhole, of a minute of their own.
func births(t testing.TB, n int, lifetime string) []store.Birth {
	t.Helper()
	l, err := mayfly.ParseLifetime(lifetime)
	if err != nil {
		t.Fatal(err)
	}
	at := testBirth + mayfly.Instant(rand.Int64N(500_000_000))*60_000
	var made []store.Birth
	for i := range n {
		var owner mayfly.UserID
		for j := range owner {
			owner[j] = byte(rand.Uint32())
		}
		id, err := mayfly.NewID(at+mayfly.Instant(i%1000), l, owner.Trace(), rand.Uint64()&^0xf|3)
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, store.Birth{
			Item: mayfly.Item{
				ID: id, Owner: owner, Sort: mayfly.Story, Fate: mayfly.Archive, Audience: mayfly.Everyone,
				State: mayfly.Active, Generation: mayfly.Born, Nonce: mayfly.Nonce(rand.Uint64() | 1), Changed: at,
			},
			Body: mayfly.Body{Text: "a story of " + id.Short()},
		})
	}
	return made
}

func insert(t testing.TB, s *Store, births ...store.Birth) {
	t.Helper()
	var b store.Batch
	b.Insert(births...)
	if err := s.Writer().Commit(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
}

func expire(item mayfly.Item) mayfly.Change {
	return mayfly.Change{
		ID: item.ID, From: item.State, Generation: item.Generation, To: mayfly.ExpiredHot,
		Nonce: mayfly.Nonce(rand.Uint64() | 1), Run: 7, Cause: mayfly.ByExpiry, At: item.ID.Deadline(),
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
