//go:build servers

package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/app/profile"
	"github.com/mayflyhq/mayfly/engine/clock"
	"github.com/mayflyhq/mayfly/product/account"
)

// The windows of a cluster. Lifetimes are seconds; a lease is two.
const (
	lease      = 2 * time.Second
	archiveIn  = time.Second
	settleTime = 4 * time.Second // walk.settle: the archive comes no sooner
	birthLimit = 3 * time.Second
)

// testCluster is the cluster of one test: its own keyspace, topics, keys and
// prefixes on the shared servers.
type testCluster struct {
	*testing.T
	servers *serverGroup
	name    string         // of its keyspace, its topics and its prefixes
	began   mayfly.Instant // what is older is another test's
	folder  string
	file    string            // its configuration
	sets    map[string]string // over the file, for every process and for open
	key     *account.Key
	http    *http.Client
	record  *record

	mu    sync.Mutex
	nodes []*process
}

// newCluster makes a cluster on the shared servers; sets are settings over those below. Its
// keyspace goes with it: the heap of a small Cassandra holds six of them.
func newCluster(t *testing.T, sets map[string]string) *testCluster {
	t.Helper()
	w := newClusterOn(t, servers(t), newName(), sets)
	t.Cleanup(func() {
		if err := w.query("DROP KEYSPACE IF EXISTS "+w.name, func(*gocql.Iter) {}); err != nil {
			t.Log(err) // a busy server drops it later, or it ends with the server
		}
	})
	return w
}

func newName() string { return fmt.Sprintf("t%08x", rand.Uint32()) }

// vacant are the clusters of tests that have passed.
var vacant struct {
	sync.Mutex
	names []string
}

// reusedCluster returns the cluster of an earlier test, if one is vacant: a keyspace
// takes seconds to make. The cluster of a test that failed is not used again.
func reusedCluster(t *testing.T, s *serverGroup) *testCluster {
	t.Helper()
	vacant.Lock()
	name := newName()
	if n := len(vacant.names); n > 0 {
		name, vacant.names = vacant.names[n-1], vacant.names[:n-1]
	}
	vacant.Unlock()
	t.Cleanup(func() {
		if !t.Failed() {
			vacant.Lock()
			vacant.names = append(vacant.names, name)
			vacant.Unlock()
		}
	})
	return newClusterOn(t, s, name, nil)
}

func newClusterOn(t *testing.T, s *serverGroup, name string, sets map[string]string) *testCluster {
	t.Helper()
	w := &testCluster{
		T: t, servers: s, name: name, folder: t.TempDir(), sets: sets, record: newRecord(), began: mayfly.InstantOf(time.Now()),
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: 30 * time.Second},
	}
	t.Cleanup(w.http.CloseIdleConnections)
	w.file = filepath.Join(w.folder, "mayfly.yaml")
	if err := os.WriteFile(w.file, []byte(w.settings()), 0o600); err != nil {
		t.Fatal(err)
	}
	w.loadKey(filepath.Join(w.folder, "key"))
	return w
}

// clusterKeys are the keys of clusters by name: nodes of one cluster have one key.
var clusterKeys sync.Map

func (w *testCluster) loadKey(file string) {
	w.Helper()
	if seed, known := clusterKeys.Load(w.name); known {
		if err := os.WriteFile(file, seed.([]byte), 0o600); err != nil {
			w.Fatal(err)
		}
	}
	var err error
	if w.key, err = account.LoadKey(file); err != nil {
		w.Fatal(err)
	}
	seed, err := os.ReadFile(file)
	if err != nil {
		w.Fatal(err)
	}
	clusterKeys.Store(w.name, seed)
}

func (w *testCluster) settings() string {
	e := w.servers.env
	quoted := func(list string) string { return `"` + strings.Join(strings.Split(list, ","), `", "`) + `"` }
	copies := min(3, len(strings.Split(e["CASSANDRA"], ",")))
	return fmt.Sprintf(`
profile: cluster
tokens: {key_file: %[1]s/key}
cassandra: {hosts: [%[2]s], keyspace: %[3]s, replication_factor: %[4]d, timeout: 5s}
kafka: {brokers: [%[5]s], prefix: %[3]s, replication_factor: 1, partitions: 4}
redis: {addresses: [%[6]s], prefix: %[3]s}
s3: {endpoint: "%[7]s", region: %[8]s, key: %[9]s, secret: "%[10]s", hot: %[11]s/%[3]s/hot, cold: %[11]s/%[3]s/cold, deletions: %[11]s/%[3]s/deletions}
stories: {lifetimes: [60s, 4s, 6s, 10s, 15s, 30s, 600s], live: 100000}
births: {timeout: %[12]s, remind_after: 2s}
walk: {interval: 500ms, settle: %[13]s, lateness: 200ms, lease: %[14]s, timeout: 5s}
ends: {archive_after: %[15]s, archive_lateness: 200ms, reconcile: 10s}
rates: {writes: 0/1h, reads: 0/1h, address_reads: 0/1h, address_writes: 0/1h}
listen: {drain_after: 0s}
`, w.folder, quoted(e["CASSANDRA"]), w.name, copies, quoted(e["KAFKA"]), quoted(e["REDIS"]),
		e["S3"], e["S3_REGION"], e["S3_KEY"], e["S3_SECRET"], e["S3_BUCKET"], birthLimit, settleTime, lease, archiveIn)
}

// query asks the first node of Cassandra, and only it.
func (w *testCluster) query(statement string, read func(*gocql.Iter)) error {
	first, _, _ := strings.Cut(w.servers.env["CASSANDRA"], ",")
	host, text, err := net.SplitHostPort(first)
	if err != nil {
		return err
	}
	c := gocql.NewCluster(host)
	if c.Port, err = strconv.Atoi(text); err != nil {
		return err
	}
	c.Timeout, c.ConnectTimeout, c.DisableInitialHostLookup = 30*time.Second, 30*time.Second, true
	session, err := c.CreateSession()
	if err != nil {
		return err
	}
	defer session.Close()
	rows := session.Query(statement).Iter()
	read(rows)
	return rows.Close()
}

// config returns the configuration of a process called node.
func (w *testCluster) config(node string, sets map[string]string) config.Config {
	w.Helper()
	flags := map[string]string{"node": node, "data": filepath.Join(w.folder, "data-"+node)}
	for _, from := range []map[string]string{w.sets, sets} {
		for k, v := range from {
			flags[k] = v
		}
	}
	cfg, err := config.Load(config.Sources{File: w.file, Flags: flags})
	if err != nil {
		w.Fatal(err)
	}
	return cfg
}

// open opens the store of the cluster in this process, by the system's clock, and closes
// it when the test ends.
func (w *testCluster) open(cfg config.Config) *profile.Store {
	w.Helper()
	source := clock.System()
	c := clock.New(source, clock.Options{}, clock.Mark{})
	return w.openBy(cfg, profile.Time{
		Now:     func() mayfly.Instant { return c.Read().Steady },
		Elapsed: func() time.Duration { return source.Read().Boot },
	})
}

func (w *testCluster) openBy(cfg config.Config, t profile.Time) *profile.Store {
	w.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	st, err := profile.Open(ctx, cfg, node.Tables(), t)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		if err := st.Close(); err != nil {
			w.Error(err)
		}
	})
	return st
}

// slowness is how much longer than on a quiet machine a wait may take. It costs nothing
// where the machine is quiet: a wait ends as soon as it is so.
const slowness = 4

// eventually asks until it is so, or fails with what is missing. On a quiet machine it
// is so within the time that is given.
func eventually(t testing.TB, within time.Duration, what string, so func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	for !so() {
		if waited := time.Since(began); waited > slowness*within {
			t.Fatalf("after %s still not: %s", waited.Round(time.Second), what)
		}
		time.Sleep(20 * time.Millisecond)
	}
	return time.Since(began)
}
