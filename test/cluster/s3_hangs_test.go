//go:build servers

package cluster

import (
	"fmt"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/mayflyhq/mayfly/store/storetest"
)

// S3 hangs while stories fall due for the archive: connections stand and nothing
// answers. No story is parked for it, hard expiry goes on, and all are cold soon
// after S3 is back (L9, L10).
func TestAnS3ThatHangsIsWaitedFor(t *testing.T) {
	t.Parallel()
	const proof = "S3 hangs"
	r := seeded(t)
	w := newClusterOn(t, servers(t).beside(t, "s3"), newName(), nil)
	t.Cleanup(func() {
		if err := w.query("DROP KEYSPACE IF EXISTS "+w.name, func(*gocql.Iter) {}); err != nil {
			t.Log(err)
		}
	})
	nodes := []*process{w.start("a", nil), w.start("b", nil)}
	l := w.begin(loadOptions{seed: r.Uint64(), writers: 3, readers: 1, lifetimes: []string{"4s", "6s"}, pause: unhurried, patience: time.Minute, nodes: nodes})
	l.goOn(60, 20, time.Minute)
	parked := func() (n int) {
		for _, p := range nodes {
			n += p.parked()
		}
		return n
	}
	before := parked()

	thaw := w.servers.freeze(t, "s3", 1)
	from := time.Now()
	time.Sleep(pick(15*time.Second, time.Minute))
	thaw()
	until := time.Now()
	due := 0
	for _, n := range w.record.all() {
		if at := n.deadline.Add(archiveIn); at.After(from) && at.Before(until) {
			due++
		}
	}
	l.goOn(10, 10, 30*time.Second)
	l.finish()
	drained := eventually(t, time.Minute, "the backlog is worked off", func() bool { return oldest(nodes) < idleAge })
	after := parked()
	end := w.audit()
	end.longer = time.Minute
	end.close(proof)
	storetest.Proof(t, proof, "hung for, fell due meanwhile, parked for it, backlog worked off after",
		fmt.Sprintf("%s, %d, %d, %s", until.Sub(from).Round(time.Millisecond), due, after-before, drained.Round(time.Millisecond)))
	if after > before {
		t.Errorf("%d stories were parked", after-before)
	}
	if due < 20 {
		t.Errorf("%d stories that fell due tell nothing", due)
	}
}
