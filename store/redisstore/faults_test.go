//go:build servers

package redisstore

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly/test/faultnet"
)

// Each test breaks something while three nodes read from their caches and change
// rows. No old row may be read after its change was acknowledged (I19, trap 18), and
// afterwards every node works again. Tests that do not measure time run in parallel,
// each with its own Redis.

// threeNodes starts three nodes, each behind a line of its own.
func threeNodes(t *testing.T, r *redis) (*cluster, []*faultnet.Line) {
	t.Helper()
	var lines []*faultnet.Line
	var addresses []string
	for range 3 {
		p := faultnet.NewLine(t, r.address())
		lines, addresses = append(lines, p), append(addresses, p.Address())
	}
	return newCluster(t, Options{}, addresses...), lines
}

func TestNoOldRowIsServedWithoutFaults(t *testing.T) {
	t.Parallel()
	w, _ := threeNodes(t, startRedis(t))
	w.run(0, 1)
	w.pause(2 * time.Second)
	w.verdict("without faults")
}

func TestNoOldRowIsServedWhenRedisIsFlushed(t *testing.T) {
	t.Parallel()
	r := startRedis(t)
	w, _ := threeNodes(t, r)
	w.run(0, 1)
	for range 4 {
		w.recovered()
		r.must("FLUSHALL")
	}
	w.recovered()
	w.verdict("flushed 4 times")
}

// Redis loses the record of a node that still holds a lease and receives nothing.
func TestPublishWaitsForALeaseThatRedisLost(t *testing.T) {
	t.Parallel()
	r := startRedis(t)
	w, lines := threeNodes(t, r)
	w.run(0, 1)
	for range 3 {
		w.recovered()
		lines[2].Swallow()
		r.must("FLUSHALL")
		until(t, "the node that is cut off loses its lease", func() bool { return !w.nodes[2].holds() })
		lines[2].Restore()
	}
	w.recovered()
	w.verdict("flushed while a subscriber is cut off")
}

func TestNoOldRowIsServedWhenRedisIsKilledAndComesBack(t *testing.T) {
	t.Parallel()
	r := startRedis(t)
	w, _ := threeNodes(t, r)
	w.run(0, 1)
	for range 2 {
		w.recovered()
		r.kill()
		w.pause(500 * time.Millisecond)
		r.start()
	}
	w.recovered()
	w.verdict("killed twice")
}

func TestNoOldRowIsServedWhenRedisFreezes(t *testing.T) {
	t.Parallel()
	r := startRedis(t)
	w, _ := threeNodes(t, r)
	w.run(0, 1)
	w.recovered()
	r.signal(syscall.SIGSTOP)
	w.pause(3 * time.Second)
	for i, n := range w.nodes {
		if n.holds() {
			t.Errorf("node %d holds a lease after 3 s of silence", i)
		}
	}
	r.signal(syscall.SIGCONT)
	w.recovered()
	w.verdict("frozen for 3 s")
}

func TestASubscriberWithADeadConnectionLosesItsLeaseWithinASecond(t *testing.T) {
	w, lines := threeNodes(t, startRedis(t))
	w.run(0)
	w.recovered()
	lines[2].Swallow()
	cutOff := w.nodes[2].Signals()
	cut, end := cutOff.now(), time.Duration(0)
	until(t, "the node that is cut off loses its lease", func() bool {
		end = max(end, cutOff.tracker.grant.Load().until) // the lease itself says when it ends, whenever this runs
		return !w.nodes[2].holds()
	})
	if end == 0 || end-cut > time.Second {
		t.Errorf("the lease was held until %v after the cut", end-cut)
	}
	w.pause(2 * time.Second)
	lines[2].Restore()
	w.recovered()
	w.verdict("a subscriber cut off silently")
}

// A connection that breaks during a publication leaves it unknown whether it was
// sent, and is back before other nodes notice the silence.
func TestNoOldRowIsServedWhenConnectionsBreak(t *testing.T) {
	t.Parallel()
	least, most := 6, 60
	if os.Getenv("MAYFLY_LONG") != "" {
		least = most
	}
	w, lines := threeNodes(t, startRedis(t))
	missed := func() bool {
		return w.nodes[0].Signals().failedPublishes.Load()+w.nodes[1].Signals().failedPublishes.Load() == 0
	}
	w.run(0, 1)
	cuts := 0
	for ; cuts < least || missed() && cuts < most; cuts++ {
		w.recovered()
		lines[cuts%3].Cut()
	}
	w.recovered()
	if missed() {
		t.Errorf("no publication failed: %d cuts missed them all", cuts)
	}
	w.verdict(fmt.Sprintf("connections cut %d times", cuts))
}

func TestNoLeaseIsRenewedWhileAPublisherIsCutOff(t *testing.T) {
	t.Parallel()
	w, lines := threeNodes(t, startRedis(t))
	w.run(0)
	w.recovered()
	lines[0].Swallow() // it goes on changing rows and cannot publish
	w.pause(4 * time.Second)
	for i, n := range w.nodes {
		if n.holds() {
			t.Errorf("node %d holds a lease while a publisher is silent", i)
		}
	}
	lines[0].Restore()
	w.recovered()
	w.verdict("a publisher cut off")
}

func TestADeadNodeIsWaitedForOnceAndThenRemoved(t *testing.T) {
	r := startRedis(t)
	dead := faultnet.NewLine(t, r.address())
	w := newCluster(t, Options{Prefix: "cluster", Forget: 3 * time.Second}, r.address(), r.address(), dead.Address())
	dead.Swallow()
	first, second := w.nodes[0].timed(), w.nodes[0].timed()
	if first < 500*time.Millisecond || first > 3*time.Second || second > 500*time.Millisecond {
		t.Errorf("publishing beside a dead node took %v and then %v", first, second)
	}
	w.nodes = w.nodes[:2]
	until(t, "the others lose their leases", func() bool { return !w.nodes[0].holds() })
	w.allHold() // once the dead node is removed
	dead.Restore()
}

func (n *clusterNode) timed() time.Duration {
	began := n.Signals().now()
	n.change(0)
	return n.Signals().now() - began
}

func TestNoOldRowIsServedWhenAReplicaTakesOver(t *testing.T) {
	t.Parallel()
	old := startRedis(t)
	w, lines := threeNodes(t, old)
	for range 2 {
		next := startRedis(t)
		next.must("REPLICAOF", "127.0.0.1", old.port)
		next.until("the replica has caught up", func() bool { return next.linked() })
		if w.changes.Load() == 0 {
			w.run(0, 1)
		}
		w.recovered()
		epochs := w.epochs()
		old.signal(syscall.SIGSTOP) // what it has not replicated is lost
		next.must("REPLICAOF", "NO", "ONE")
		for _, p := range lines {
			p.Turn(next.address())
		}
		w.recovered()
		for i, epoch := range w.epochs() {
			if epoch <= epochs[i] {
				t.Errorf("node %d kept its epoch across a fail-over", i)
			}
		}
		old.kill()
		old = next
	}
	w.verdict("two fail-overs")
}

// The replica that takes over has no record of a node that holds a lease.
func TestPublishWaitsForALeaseThatAReplicaNeverSaw(t *testing.T) {
	t.Parallel()
	for range 2 {
		master, replica := startRedis(t), startRedis(t)
		var lines []*faultnet.Line
		for range 3 {
			lines = append(lines, faultnet.NewLine(t, master.address()))
		}
		w := newCluster(t, Options{}, lines[0].Address(), lines[1].Address())
		replica.must("REPLICAOF", "127.0.0.1", master.port)
		replica.until("the replica has caught up", replica.linked)
		replica.must("REPLICAOF", "NO", "ONE")
		w.add(lines[2].Address())
		w.run(0, 1)
		w.recovered()
		lines[2].Swallow()
		for _, p := range lines[:2] {
			p.Turn(replica.address())
		}
		until(t, "the node that is cut off loses its lease", func() bool { return !w.nodes[2].holds() })
		lines[2].Turn(replica.address())
		lines[2].Restore()
		w.recovered()
		w.verdict("a replica that missed a node")
	}
}

func (w *cluster) epochs() []uint64 {
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

	// Each node gets both addresses: the cluster does not list a replica that is still
	// catching up, and a node that knows only the master cannot go on when it dies.
	both := master.address() + "," + replica.address()
	w := newCluster(t, Options{}, both, both, both)
	w.run(0, 1)
	w.recovered()
	replica.must("CLUSTER", "FAILOVER")
	master.until("the replica is the master", func() bool { return strings.Contains(master.try("INFO", "replication"), "role:slave") })
	w.recovered()
	master.until("the old master has caught up", master.linked)
	replica.kill()
	master.must("CLUSTER", "FAILOVER", "TAKEOVER")
	w.recovered()
	w.verdict("two fail-overs of a cluster")
}
