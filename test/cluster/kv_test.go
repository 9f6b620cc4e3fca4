//go:build servers

package cluster

import (
	"bufio"
	"context"
	enc "encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/cassandrastore"
	"github.com/mayflyhq/mayfly/store/storetest"
)

// openKeys opens the key-value store of a ring in a keyspace.
func openKeys(t *testing.T, s *serverGroup, keyspace string, timeout time.Duration) store.KV {
	t.Helper()
	o := cassandrastore.Options{
		Keyspace: keyspace, Copies: 3, Tables: node.Tables(), Timeout: timeout, StatsAge: time.Nanosecond,
		Log: struct{ store.Log }{}, Now: func() mayfly.Instant { return mayfly.InstantOf(time.Now()) },
	}
	for at := range strings.SplitSeq(s.env["CASSANDRA"], ",") {
		host, port, err := net.SplitHostPort(at)
		if err == nil {
			o.Port, err = strconv.Atoi(port)
		}
		if err != nil {
			t.Fatal(err)
		}
		o.Hosts = append(o.Hosts, host)
	}
	opened, err := cassandrastore.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := opened.Close(); err != nil {
			t.Error(err)
		}
	})
	return opened.KV()
}

// nodetool runs nodetool for a node, with the Java and the libraries of its process.
func (s *serverGroup) nodetool(t *testing.T, number int, args ...string) {
	t.Helper()
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", s.pid("cassandra", number)))
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Split(string(line), "\x00")
	run, port := []string{"-Xmx64m"}, ""
	for i, word := range words {
		switch {
		case strings.HasPrefix(word, "--add-"), strings.HasPrefix(word, "-Dlogback"):
			run = append(run, word)
		case word == "-cp":
			run = append(run, word, words[i+1])
		case strings.HasPrefix(word, "-Dcassandra.jmx.local.port="):
			port = strings.TrimPrefix(word, "-Dcassandra.jmx.local.port=")
		}
	}
	run = append(append(run, "org.apache.cassandra.tools.NodeTool", "-p", port), args...)
	home := "HOME=" + t.TempDir()
	patiently(t, fmt.Sprintf("nodetool %s on node %d", strings.Join(args, " "), number), func() error {
		cmd := exec.CommandContext(t.Context(), words[0], run...)
		cmd.Env = append(os.Environ(), home)
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	})
}

// rawKeys reads the key-value store beside our code, by docs/format-cassandra.md, from one
// node at any level.
type rawKeys struct {
	cluster func() *gocql.ClusterConfig
	session *gocql.Session
	node    string
}

func readRaw(t *testing.T, s *serverGroup, keyspace string, number int) *rawKeys {
	t.Helper()
	host, port, err := net.SplitHostPort(strings.Split(s.env["CASSANDRA"], ",")[number-1])
	if err != nil {
		t.Fatal(err)
	}
	number, err = strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	r := &rawKeys{node: host, cluster: func() *gocql.ClusterConfig { // sessions share nothing of it
		c := gocql.NewCluster(host)
		c.Keyspace, c.Timeout, c.ConnectTimeout, c.DisableInitialHostLookup = keyspace, 20*time.Second, 20*time.Second, true
		c.HostFilter = gocql.WhiteListHostFilter(host)
		c.Port = number
		return c
	}}
	patiently(t, "a connection to "+host, r.connect)
	t.Cleanup(func() { r.session.Close() })
	return r
}

// connect opens another session: one whose only node is said to be down does not go on.
func (r *rawKeys) connect() error {
	session, err := r.cluster().CreateSession()
	if err != nil {
		return err
	}
	if r.session != nil {
		r.session.Close()
	}
	r.session = session
	return nil
}

// visible reports whether an entry would be served from this node at this level.
func (r *rawKeys) visible(t *testing.T, space store.KVSpace, key string, level gocql.Consistency, now mayfly.Instant) bool {
	t.Helper()
	mode := "c"
	if space.LastWriteWins {
		mode = "l"
	}
	var meta []byte
	patiently(t, fmt.Sprintf("a read through %s at %s", r.node, level), func() error {
		err := r.session.Query("SELECT meta FROM kv WHERE space = ? AND slot = ? AND key = ?", []byte(mode+space.Name), int16(store.KVSlot(key)), []byte("\x01"+key)).
			Consistency(level).Scan(&meta)
		switch {
		case errors.Is(err, gocql.ErrNotFound):
			return nil
		case errors.Is(err, gocql.ErrNoConnections):
			return errors.Join(err, r.connect())
		}
		return err
	})
	if len(meta) == 0 {
		return false
	}
	if len(meta) != 37 {
		t.Fatalf("node %s at %s: %d bytes", r.node, level, len(meta))
	}
	expiry := mayfly.Instant(enc.BigEndian.Uint64(meta[25:]))
	return meta[8] == 1 && (expiry == 0 || expiry > now)
}

// patiently does something until it does not fail: nodes that have just lost or found one
// another, and that share two processors, may answer that they had too little time.
func patiently(t *testing.T, what string, do func() error) {
	t.Helper()
	var err error
	for began := time.Now(); time.Since(began) < 2*time.Minute; time.Sleep(200 * time.Millisecond) {
		if err = do(); err == nil {
			return
		}
		t.Logf("%s: %v", what, err)
	}
	t.Fatalf("%s fails for two minutes: %v", what, err)
}

// keysOfARing has three processes change keys by compare-and-set while a node hangs again and again, and
// then while another one is away and misses the end of other keys.
func keysOfARing(t *testing.T, s *serverGroup, keyspace string) {
	random := seeded(t)
	h := storetest.NewKVHistory(4)
	h.Gets, h.Pause = true, 50*time.Millisecond
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	openKeys(t, s, keyspace, 20*time.Second) // makes the tables
	var clients sync.WaitGroup
	for process := range 3 {
		kv := openKeys(t, s, keyspace, 2*time.Second)
		for client := range 2 {
			r := rand.New(rand.NewPCG(random.Uint64(), random.Uint64()))
			clients.Go(func() { h.Client(ctx, kv, r, 2*process+client, func() bool { return false }) })
		}
	}
	time.Sleep(time.Second)
	hangs := 0
	for began := time.Now(); time.Since(began) < pick(8*time.Second, time.Minute); hangs++ { // each time in the middle of other requests
		thaw := s.freeze(t, "cassandra", 2)
		time.Sleep(time.Duration(500+random.IntN(2500)) * time.Millisecond)
		thaw()
		time.Sleep(time.Duration(100+random.IntN(400)) * time.Millisecond)
	}
	t.Logf("node 2 has hung %d times", hangs)
	const swaps = 100
	keysStayGone(t, s, keyspace, func() {
		eventually(t, time.Minute, "enough writes by version are done", func() bool { return h.Swapped() >= swaps })
		stop()
		clients.Wait()
	})
	h.Check(t, "compare-and-set on a ring of three under faults", swaps)
}

// keysStayGone lets a node miss that keys expire, are deleted and are replaced by ones
// that expire sooner, and calls back when it is back; the ring keeps no hints. Then they are invisible at every level that our reads
// and writes use, what expired also in the node itself, and after a repair all of them on every node (K4, trap 12).
func keysStayGone(t *testing.T, s *serverGroup, keyspace string, back func()) {
	const proof, n = "keys of a node that was away", 8
	began := time.Now()
	step := func(what string) { t.Logf("%s after %s", what, time.Since(began).Round(time.Millisecond)) }
	kv := openKeys(t, s, keyspace, 10*time.Second)
	step("opened")
	now := mayfly.InstantOf(time.Now())
	soon, later := now.Add(time.Second), now.Add(2*time.Second)
	spaces := []store.KVSpace{{Name: "agreed"}, {Name: "plain", LastWriteWins: true}}
	each := func(do func(space store.KVSpace, i int)) {
		for _, space := range spaces {
			for i := range n {
				do(space, i)
			}
		}
	}
	apply := func(space store.KVSpace, o store.KVOp) {
		t.Helper()
		patiently(t, "a write", func() error {
			_, err := kv.Apply(t.Context(), space, now, store.KVGroup{Ops: []store.KVOp{o}})
			return err
		})
	}
	set := func(kind string, i int, expiry mayfly.Instant) store.KVOp {
		return store.KVOp{Key: fmt.Sprint(kind, i), Action: store.KVSet, Value: []byte(kind), Expiry: expiry}
	}
	gone := []string{"deleted", "expired", "replaced"}
	each(func(space store.KVSpace, i int) {
		apply(space, set("deleted", i, 0))
		apply(space, set("expired", i, soon))
		apply(space, set("replaced", i, now.Add(time.Hour)))
		apply(space, set("stays", i, now.Add(time.Hour)))
	})
	third := readRaw(t, s, keyspace, 3)
	each(func(space store.KVSpace, i int) {
		for _, kind := range []string{"replaced", "deleted"} {
			for _, level := range []gocql.Consistency{gocql.All, gocql.One} { // a read at ALL gives node 3 what it missed
				if !third.visible(t, space, fmt.Sprint(kind, i), level, now) {
					t.Fatalf("%s%d of %s is not in node 3, at %s", kind, i, space.Name, level)
				}
			}
		}
	})
	step("keys are written")
	s.kill(t, "cassandra", 3)
	each(func(space store.KVSpace, i int) {
		apply(space, store.KVOp{Key: fmt.Sprint("deleted", i), Action: store.KVDelete})
		apply(space, set("replaced", i, soon))
	})
	s.start(t, "cassandra", 3)
	back()
	step("node 3 is back")
	var nodes [3]*rawKeys
	connect := func() {
		for i := range nodes {
			nodes[i] = readRaw(t, s, keyspace, i+1)
		}
	}
	connect()
	// A read at ONE through node 3 may be answered by another node: if it was, they hang meanwhile.
	old := func() (n int) {
		each(func(space store.KVSpace, i int) {
			for _, kind := range gone {
				visible := nodes[2].visible(t, space, fmt.Sprint(kind, i), gocql.One, later)
				if visible && kind == "expired" {
					t.Errorf("%s%d of %s is visible in node 3 itself", kind, i, space.Name)
				} else if visible {
					n++
				}
			}
		})
		return n
	}
	stale := old()
	if stale < n {
		step(fmt.Sprintf("read %d old versions, other nodes hang", stale))
		first, second := s.freeze(t, "cassandra", 1), s.freeze(t, "cassandra", 2)
		stale = old()
		first()
		second()
		connect() // their connections may not have outlived it
		step("other nodes go on")
	}
	reads := 0
	check := func(when string, levels ...gocql.Consistency) {
		t.Helper()
		each(func(space store.KVSpace, i int) {
			for _, node := range nodes {
				for _, level := range levels {
					for _, kind := range gone {
						if reads++; node.visible(t, space, fmt.Sprint(kind, i), level, later) {
							t.Errorf("%s: %s%d of %s is visible through %s at %s", when, kind, i, space.Name, node.node, level)
						}
					}
					if !node.visible(t, space, fmt.Sprint("stays", i), level, later) {
						t.Errorf("%s: stays%d of %s is lost through %s at %s", when, i, space.Name, node.node, level)
					}
				}
			}
			key := fmt.Sprint(gone[i%3], i)
			patiently(t, "a Get", func() error {
				found, err := kv.Get(t.Context(), space, later, key)
				if err == nil && found[0].Found {
					t.Errorf("%s: Get of %s in %s: %+v", when, key, space.Name, found)
				}
				return err
			})
		})
		for _, space := range spaces {
			patiently(t, "statistics", func() error {
				stats, err := kv.Stats(t.Context(), space, later)
				if err == nil && stats.Keys != n {
					t.Errorf("%s: %s has %+v", when, space.Name, stats)
				}
				return err
			})
		}
	}
	// The levels of our requests come first, as reads repair what they read.
	check("back", gocql.Quorum, gocql.Serial, gocql.LocalQuorum)
	step("checked")
	s.nodetool(t, 3, "repair", "--full", keyspace, "kv")
	step("repaired")
	check("repaired", gocql.One, gocql.Quorum, gocql.Serial, gocql.All)
	step("checked")
	storetest.Proof(t, proof, "reads of keys that are gone, old versions in node 3 when it was back", fmt.Sprintf("%d, %d", reads, stale))
	if stale < n {
		t.Errorf("node 3 had only %d old versions when it was back", stale)
	}
}

// Two nodes of a cluster serve the same keys over the Redis protocol, each at once what
// was written through the other, also when one of them is killed.
func TestNodesOfAClusterServeTheSameKeys(t *testing.T) {
	t.Parallel()
	w := reusedCluster(t, servers(t))
	namespace := newName()
	var nodes []*process
	var clients []*redisClient
	key := ""
	for _, name := range []string{"a", "b"} {
		at := storetest.Address(t)
		p := w.start(name, map[string]string{"listen.kv": at, "kv.namespaces": namespace})
		if key == "" {
			made, err := w.personAt(p.admin, "operator", account.Admin).AddKVKey(t.Context(), namespace, "a test")
			if err != nil {
				t.Fatal(err)
			}
			key = made.Key
		}
		nodes, clients = append(nodes, p), append(clients, dialRedis(t, at, namespace, key))
	}
	a, b := clients[0], clients[1]
	a.want("+OK", "SET {u}1 one PX 600000")
	b.want("one", "GET {u}1")
	b.want(":0", "SETNX {u}1 other")
	a.want("-CROSSSLOT Keys in request don't hash to the same slot", "MGET {u}1 {v}1")
	a.want("+OK", "WATCH {u}n")
	b.want(":1", "INCR {u}n")
	a.want("+OK", "MULTI")
	a.want("+QUEUED", "INCR {u}n")
	a.want("*-1", "EXEC")
	var both sync.WaitGroup
	for _, c := range clients {
		both.Go(func() {
			for range 50 {
				if got := c.do("INCR {u}n"); !strings.HasPrefix(got, ":") {
					t.Errorf("INCR: %s", got)
				}
			}
		})
	}
	both.Wait()
	a.want("101", "GET {u}n")
	a.want("+OK", "SET short v PX 300")
	time.Sleep(350 * time.Millisecond)
	b.want("$-1", "GET short")
	b.want(":1", "DEL {u}1")
	a.want("$-1", "GET {u}1")
	nodes[0].kill()
	b.want(":102", "INCR {u}n")
}

// redisClient is a connection to a node that sends inline commands.
type redisClient struct {
	*testing.T
	nc net.Conn
	in *bufio.Reader
}

func dialRedis(t *testing.T, address, namespace, key string) *redisClient {
	t.Helper()
	nc, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	c := &redisClient{t, nc, bufio.NewReader(nc)}
	c.want("+OK", "AUTH "+namespace+" "+key)
	return c
}

// do returns the first line of the answer, or the value.
func (c *redisClient) do(command string) string {
	_ = c.nc.SetDeadline(time.Now().Add(time.Minute))
	if _, err := fmt.Fprintf(c.nc, "%s\r\n", command); err != nil {
		return err.Error()
	}
	line, err := c.in.ReadString('\n')
	if err == nil && line[0] == '$' && line != "$-1\r\n" {
		line, err = c.in.ReadString('\n')
	}
	if err != nil {
		return err.Error()
	}
	return strings.TrimSuffix(line, "\r\n")
}

func (c *redisClient) want(answer, command string) {
	c.Helper()
	if got := c.do(command); got != answer {
		c.Errorf("%s: got %s, want %s", command, got, answer)
	}
}
