//go:build servers

package redisstore

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Each fault is done to three nodes that read from their caches and change rows
// meanwhile. In none of them an old row is read after its change was
// acknowledged (I19, trap 18), and afterwards all is as before. Those that are not
// about how long something takes run two at a time, each on a Redis of its own.

func threeNodes(t *testing.T, r *redis) (*town, []*proxy) {
	t.Helper()
	var proxies []*proxy
	var addresses []string
	for range 3 {
		p := startProxy(t, r.address())
		proxies, addresses = append(proxies, p), append(addresses, p.address())
	}
	return newTown(t, Options{}, addresses...), proxies
}

func TestNoOldRowIsServedWhenAllIsWell(t *testing.T) {
	t.Parallel()
	w, _ := threeNodes(t, startRedis(t))
	w.live(0, 1)
	w.rest(2 * time.Second)
	w.verdict("at peace")
}

func TestNoOldRowIsServedWhenRedisIsFlushed(t *testing.T) {
	t.Parallel()
	r := startRedis(t)
	w, _ := threeNodes(t, r)
	w.live(0, 1)
	for range 4 {
		w.healed()
		r.must("FLUSHALL")
	}
	w.healed()
	w.verdict("flushed 4 times")
}

// The roll forgets a node that still holds a lease and hears nothing any more.
func TestALeaseThatRedisHasForgottenIsWaitedFor(t *testing.T) {
	t.Parallel()
	r := startRedis(t)
	w, proxies := threeNodes(t, r)
	w.live(0, 1)
	for range 3 {
		w.healed()
		proxies[2].dig()
		r.must("FLUSHALL")
		until(t, "the node that is cut off loses its lease", func() bool { return !w.nodes[2].holds() })
		proxies[2].fill()
	}
	w.healed()
	w.verdict("flushed while a subscriber is cut off")
}

func TestNoOldRowIsServedWhenRedisIsKilledAndComesBack(t *testing.T) {
	t.Parallel()
	r := startRedis(t)
	w, _ := threeNodes(t, r)
	w.live(0, 1)
	for range 2 {
		w.healed()
		r.kill()
		w.rest(500 * time.Millisecond)
		r.start()
	}
	w.healed()
	w.verdict("killed twice")
}

func TestNoOldRowIsServedWhenRedisFreezes(t *testing.T) {
	t.Parallel()
	r := startRedis(t)
	w, _ := threeNodes(t, r)
	w.live(0, 1)
	w.healed()
	r.signal(syscall.SIGSTOP)
	w.rest(3 * time.Second)
	for i, n := range w.nodes {
		if n.holds() {
			t.Errorf("node %d holds a lease after 3 s of silence", i)
		}
	}
	r.signal(syscall.SIGCONT)
	w.healed()
	w.verdict("frozen for 3 s")
}

func TestASubscriberWithASilentConnectionLosesItsLeaseWithinASecond(t *testing.T) {
	w, proxies := threeNodes(t, startRedis(t))
	w.live(0)
	w.healed()
	proxies[2].dig()
	cut := w.nodes[2].Signals().now()
	until(t, "the node that is cut off loses its lease", func() bool { return !w.nodes[2].holds() })
	if took := w.nodes[2].Signals().now() - cut; took > time.Second {
		t.Errorf("the lease was lost after %v", took)
	}
	w.rest(2 * time.Second)
	proxies[2].fill()
	w.healed()
	w.verdict("a subscriber cut off silently")
}

// A connection that breaks under a publication leaves nobody knowing whether it
// was told, and is back before the node is missed.
func TestNoOldRowIsServedWhenConnectionsBreak(t *testing.T) {
	t.Parallel()
	least, most := 6, 60
	if os.Getenv("MAYFLY_LONG") != "" {
		least = most
	}
	w, proxies := threeNodes(t, startRedis(t))
	missed := func() bool { return w.nodes[0].Signals().debts.Load()+w.nodes[1].Signals().debts.Load() == 0 }
	w.live(0, 1)
	cuts := 0
	for ; cuts < least || missed() && cuts < most; cuts++ {
		w.healed()
		proxies[cuts%3].cut()
	}
	w.healed()
	if missed() {
		t.Errorf("no publication failed: %d cuts missed them all", cuts)
	}
	w.verdict(fmt.Sprintf("connections cut %d times", cuts))
}

func TestAPublisherThatIsCutOffIsNotOverheard(t *testing.T) {
	t.Parallel()
	w, proxies := threeNodes(t, startRedis(t))
	w.live(0)
	w.healed()
	proxies[0].dig() // it goes on changing rows that it cannot tell of
	w.rest(4 * time.Second)
	for i, n := range w.nodes {
		if n.holds() {
			t.Errorf("node %d holds a lease while a publisher of the roll is silent", i)
		}
	}
	proxies[0].fill()
	w.healed()
	w.verdict("a publisher cut off")
}

func TestANodeThatDiesIsWaitedForOnceAndForgotten(t *testing.T) {
	r := startRedis(t)
	dead := startProxy(t, r.address())
	w := newTown(t, Options{Prefix: "town", Forget: 3 * time.Second}, r.address(), r.address(), dead.address())
	dead.dig()
	first, second := w.nodes[0].timed(), w.nodes[0].timed()
	if first < 500*time.Millisecond || first > 3*time.Second || second > 500*time.Millisecond {
		t.Errorf("publishing beside a dead node took %v and then %v", first, second)
	}
	w.nodes = w.nodes[:2]
	until(t, "the others lose their leases", func() bool { return !w.nodes[0].holds() })
	w.allHold() // once it is forgotten
	dead.fill()
}

func (n *townNode) timed() time.Duration {
	began := n.Signals().now()
	n.change(0)
	return n.Signals().now() - began
}

func TestNoOldRowIsServedWhenAReplicaTakesOver(t *testing.T) {
	t.Parallel()
	old := startRedis(t)
	w, proxies := threeNodes(t, old)
	for range 2 {
		next := startRedis(t)
		next.must("REPLICAOF", "127.0.0.1", old.port)
		next.until("the replica has caught up", func() bool { return next.linked() })
		if w.changes.Load() == 0 {
			w.live(0, 1)
		}
		w.healed()
		epochs := w.epochs()
		old.signal(syscall.SIGSTOP) // what it has not passed on is lost
		next.must("REPLICAOF", "NO", "ONE")
		for _, p := range proxies {
			p.turn(next.address())
		}
		w.healed()
		for i, epoch := range w.epochs() {
			if epoch <= epochs[i] {
				t.Errorf("node %d has kept its epoch through a fail-over", i)
			}
		}
		old.kill()
		old = next
	}
	w.verdict("two fail-overs")
}

// The replica that takes over never heard of a node that holds a lease.
func TestALeaseThatAReplicaHasNotHeardOfIsWaitedFor(t *testing.T) {
	t.Parallel()
	for range 2 {
		master, replica := startRedis(t), startRedis(t)
		var proxies []*proxy
		for range 3 {
			proxies = append(proxies, startProxy(t, master.address()))
		}
		w := newTown(t, Options{}, proxies[0].address(), proxies[1].address())
		replica.must("REPLICAOF", "127.0.0.1", master.port)
		replica.until("the replica has caught up", replica.linked)
		replica.must("REPLICAOF", "NO", "ONE")
		w.add(proxies[2].address())
		w.live(0, 1)
		w.healed()
		proxies[2].dig()
		for _, p := range proxies[:2] {
			p.turn(replica.address())
		}
		until(t, "the node that is cut off loses its lease", func() bool { return !w.nodes[2].holds() })
		proxies[2].turn(replica.address())
		proxies[2].fill()
		w.healed()
		w.verdict("a replica that missed a node")
	}
}

func (w *town) epochs() []uint64 {
	var epochs []uint64
	for _, n := range w.nodes {
		epoch, _ := n.sub.Lease()
		epochs = append(epochs, epoch)
	}
	return epochs
}

// A Redis Cluster of one master and its replica: the client has to follow.
func TestNoOldRowIsServedWhenARedisClusterFailsOver(t *testing.T) {
	t.Parallel()
	clustered := []string{"--cluster-enabled", "yes", "--cluster-node-timeout", "2000"}
	master, replica := startRedis(t, clustered...), startRedis(t, clustered...)
	master.must("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
	replica.must("CLUSTER", "MEET", "127.0.0.1", master.port, busPort(master.port))
	master.until("the cluster is whole", func() bool { return master.known() == 2 && replica.known() == 2 })
	replica.until("the replica is one", func() bool {
		return strings.HasPrefix(replica.try("CLUSTER", "REPLICATE", master.clusterID()), "+OK")
	})
	replica.until("the replica has caught up", replica.linked)
	master.until("the cluster is up", func() bool { return strings.Contains(master.try("CLUSTER", "INFO"), "cluster_state:ok") })

	// Each knows both from the start: a replica that is just catching up is in no
	// answer of the cluster, and a node that knows nobody else is alone when the
	// master dies.
	both := master.address() + "," + replica.address()
	w := newTown(t, Options{}, both, both, both)
	w.live(0, 1)
	w.healed()
	replica.must("CLUSTER", "FAILOVER")
	master.until("the replica reigns", func() bool { return strings.Contains(master.try("INFO", "replication"), "role:slave") })
	w.healed()
	master.until("the old master has caught up", master.linked)
	replica.kill()
	master.must("CLUSTER", "FAILOVER", "TAKEOVER")
	w.healed()
	w.verdict("two fail-overs of a cluster")
}
