package cassandrastore

import (
	"maps"
	"slices"
	"sync"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/mayflyhq/mayfly/store/loop"
)

// The driver opens a session when it has tried every node, which takes half a minute
// if one hangs. So it is reported earlier that it may: when all but a few slow ones are
// there. Not as soon as one is: what asks every node (agree) would miss the others.
const (
	joinWithin = 3 * time.Second
	joinLook   = 10 * time.Millisecond
)

// joining knows which nodes of a new session have been tried.
type joining struct {
	mu    sync.Mutex
	nodes []*gocql.HostInfo
	up    map[*gocql.HostInfo]bool // those that were tried: is it up?
}

func (j *joining) expect(hosts []*gocql.HostInfo) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.nodes = slices.Clone(hosts)
}

// tried may come before expect.
func (j *joining) tried(host *gocql.HostInfo, up bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.up == nil {
		j.up = map[*gocql.HostInfo]bool{}
	}
	j.up[host] = up
}

func (j *joining) forget(host *gocql.HostInfo) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.up, host)
	j.nodes = slices.DeleteFunc(j.nodes, func(node *gocql.HostInfo) bool { return node == host })
}

// state says whether a node is up, and whether all have been tried.
func (j *joining) state() (some, all bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	all = true
	for _, host := range j.nodes {
		_, tried := j.up[host]
		all = all && tried
	}
	return slices.Contains(slices.Collect(maps.Values(j.up)), true), all
}

// Ready implements gocql.ReadyPolicy. It is asked after each node that was tried.
func (a *around) Ready() bool {
	elapsed := loop.Stopwatch()
	for ends := elapsed() + joinWithin; ; time.Sleep(joinLook) {
		if some, all := a.joining.state(); all || elapsed() > ends {
			return some
		}
	}
}

// HostUp is called for a node that is connected.
func (a *around) HostUp(host *gocql.HostInfo) {
	a.HostSelectionPolicy.HostUp(host)
	a.joining.tried(host, true)
}

// HostDown is called for a node that cannot be.
func (a *around) HostDown(host *gocql.HostInfo) {
	a.HostSelectionPolicy.HostDown(host)
	a.joining.tried(host, false)
}
