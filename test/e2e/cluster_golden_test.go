//go:build servers

package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/store/storetest"
)

// clusterHour is how long an hour of a script takes on a cluster: what is due is
// further away than on one node's own disk.
const clusterHour = 1500 * time.Millisecond

// clusterSettings are fastSettings for nodes on real servers. Media are served by
// the nodes, as the stories say; presigned URLs have a test of their own.
const clusterSettings = `
profile: cluster
node: %[1]s
tokens:
  key_file: %[2]s
cassandra:
  hosts: ["%[3]s"]
  replication_factor: 1
  keyspace: %[4]s
kafka:
  brokers: ["%[5]s"]
  replication_factor: 1
  partitions: 4
  prefix: %[4]s
redis:
  addresses: ["%[6]s"]
  prefix: %[4]s
s3:
  endpoint: %[7]s
  region: %[8]s
  key: %[9]s
  secret: "%[10]s"
  hot: %[11]s/%[4]s/hot
  cold: %[11]s/%[4]s/cold
  deletions: %[11]s/%[4]s/deletions
  presign: false
stories:
  lifetimes: [%[12]s]
  live: 5
  urls: %[13]s
  archive_urls: %[14]s
pastes:
  anonymous: true
  shortest_lifetime: 1s
feed:
  shortest_lifetime: 1s
births:
  timeout: %[15]s
  remind_after: %[16]s
walk:
  interval: %[17]s
  settle: %[18]s
  lateness: 100ms
ends:
  archive_after: %[19]s
  archive_lateness: 100ms
  reconcile: %[20]s
rates:
  writes: 0/1h
  reads: 0/1h
  address_reads: 0/1h
  address_writes: 0/1h
listen:
  drain_after: 0s
  kv: %[21]s
`

// Every golden story once more, by two real nodes on real servers: each request
// goes to one of them by turns, and what is asked and not done is asked of both,
// so that what one has acknowledged must hold at the other at once (I19, L1–L16).
func TestGoldenStoriesComeTrueOnACluster(t *testing.T) {
	all := slices.DeleteFunc(scripts(t), func(s script) bool { return s.name == "keys-events" }) // a cluster has no events of expired keys
	hour := clusterHour
	if os.Getenv("MAYFLY_LONG") != "" {
		hour *= 4
	}
	nodes := startNodes(t, hour, "a", "b")
	c := &clusterStage{realtime: realtime{server: nodes[0], documents: nodes[0].readDocuments(), hour: hour}, nodes: nodes}
	sum := c.playAll(t, c, all)
	t.Logf("%d golden stories on %d nodes, in %s: %s", len(all), len(nodes), time.Since(c.begins.Time()).Round(time.Second), sum)
	if !t.Failed() && sum.elsewhere*3 < sum.answers {
		t.Errorf("only %d of %d answers were asked of the other node too", sum.elsewhere, sum.answers)
	}
	for n, s := range nodes {
		a, err := s.send(t.Context(), request{method: http.MethodGet, target: "/metrics", admin: true})
		if err != nil || !contains(a, servedLate) {
			t.Errorf("node %d: served_after_deadline_total is not there, or not 0: %v", n, err)
		}
		if got := c.asked[n].Load(); got < 100 && os.Getenv("MAYFLY_STORY") == "" {
			t.Errorf("node %d was asked %d times", n, got)
		}
	}
}

// clusterStage is the stage of real nodes that share their servers.
type clusterStage struct {
	realtime
	nodes []*server
	turn  atomic.Uint64
	asked [2]atomic.Uint64
}

// ask asks the node whose turn it is.
func (c *clusterStage) ask(r request) (answer, error) {
	return c.askNode(int(c.turn.Add(1))%len(c.nodes), r)
}

// others asks all nodes, also the one that was asked already.
func (c *clusterStage) others(r request) ([]answer, error) {
	var all []answer
	for n := range c.nodes {
		a, err := c.askNode(n, r)
		if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	return all, nil
}

func (c *clusterStage) askNode(n int, r request) (answer, error) {
	c.asked[n].Add(1)
	one := c.realtime
	one.server = c.nodes[n]
	a, err := one.ask(r)
	if err != nil {
		err = fmt.Errorf("node %d: %w", n, err)
	}
	return a, err
}

// startNodes starts nodes on the servers that the environment names, with names,
// keyspace and prefixes that no other test has.
func startNodes(t *testing.T, hour time.Duration, names ...string) []*server {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key")
	key, err := account.LoadKey(file)
	if err != nil {
		t.Fatal(err)
	}
	run := fmt.Sprintf("golden_%08x", rand.Uint32())
	var nodes []*server
	for _, name := range names {
		at := storetest.Address(t)
		settings := fmt.Sprintf(clusterSettings, name, file, env(t, "CASSANDRA"), run, env(t, "KAFKA"), env(t, "REDIS"),
			env(t, "S3"), env(t, "S3_REGION"), env(t, "S3_KEY"), env(t, "S3_SECRET"), env(t, "S3_BUCKET"),
			fmt.Sprintf("%s, %s, %s, %s", 24*hour, 6*hour, 12*hour, 48*hour), 4*hour, hour, hour*4/5, hour*7/10, hour/6, hour, hour*6/5, 5*hour, at)
		s := serveIn(t, t.TempDir(), settings)
		s.key, s.redis = key, at
		nodes = append(nodes, s)
	}
	return nodes
}

// env is what the environment says of the servers; a test that needs them fails
// without.
func env(t *testing.T, name string) string {
	t.Helper()
	name = "MAYFLY_TEST_" + name
	value := os.Getenv(name)
	if value == "" {
		t.Fatalf(`%s is not set: eval "$(go run ./deploy/servers up)"`, name)
	}
	return strings.ReplaceAll(value, ",", `", "`) // in a list of the configuration
}
