package cassandrastore

import (
	"maps"
	"slices"
	"sync"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/mayflyhq/mayfly/store/loop"
)

// around is a host selection policy around another one: it returns the same hosts,
// silent ones last, and starts again at the end. Otherwise a speculative request that
// finds no host left would fail the whole request in the client library, although the
// first host may still answer.
type around struct {
	gocql.HostSelectionPolicy
	silences *silences
	several  func() bool // nodes are in the ring
	joining  joining
}

// rounds is enough for all tries of a request and its speculative execution, even if
// only one node is up.
const rounds = tries + 1

// Init is called by the client library before Pick.
func (a *around) Init(s *gocql.Session) {
	a.several = func() bool { return several(s) }
	a.HostSelectionPolicy.Init(s)
}

// Pick implements gocql.HostSelectionPolicy.
func (a *around) Pick(q gocql.ExecutableStatement) gocql.NextHost {
	next := a.pick(q)
	var silent []gocql.SelectedHost // of this round
	round := 1
	mayProbe := q.IsIdempotent() // with its first node: the second asking goes to one that answers
	return func() gocql.SelectedHost {
		for {
			host := next()
			last := host != nil && a.silences.last(host.Info(), mayProbe)
			mayProbe = false
			switch {
			case last:
				silent = append(silent, host)
			case host != nil:
				return host
			case len(silent) > 0:
				host, silent = silent[0], silent[1:]
				return host
			case round == rounds || !a.several():
				return nil
			default:
				next = a.pick(q)
				round++
			}
		}
	}
}

// pick calls the inner policy. At the first use of a statement the client library has
// a node prepare it, to learn its partition key, and waits for that node even if it
// hangs. pick waits no longer than secondAfter for this, and then uses any node.
func (a *around) pick(q gocql.ExecutableStatement) gocql.NextHost {
	came := make(chan gocql.NextHost, 1)
	go func() { came <- a.HostSelectionPolicy.Pick(q) }()
	wait := time.NewTimer(secondAfter)
	defer wait.Stop()
	select {
	case next := <-came:
		return next
	case <-wait.C:
		return a.HostSelectionPolicy.Pick(nil)
	}
}

// RemoveHost is called for a node that has left the ring.
func (a *around) RemoveHost(host *gocql.HostInfo) {
	a.silences.forget(host)
	a.joining.forget(host)
	a.HostSelectionPolicy.RemoveHost(host)
}

// AddHosts adds all hosts at once, which is cheaper than AddHost for each.
func (a *around) AddHosts(hosts []*gocql.HostInfo) {
	a.joining.expect(hosts)
	if all, ok := a.HostSelectionPolicy.(interface{ AddHosts([]*gocql.HostInfo) }); ok {
		all.AddHosts(hosts)
		return
	}
	for _, host := range hosts {
		a.AddHost(host)
	}
}

func several(s *gocql.Session) bool { return len(s.GetHosts()) > 1 }

// The client library opens a session when it has tried every node, which takes half a
// minute if one hangs. Ready therefore reports earlier that the session can be used:
// when all were tried, or after joinWithin. It does not do so as soon as one node is
// up, because agree, which asks every node, would miss the others.
const (
	joinWithin = 3 * time.Second
	joinLook   = 10 * time.Millisecond
)

// joining records which nodes of a new session were tried.
type joining struct {
	mu    sync.Mutex
	nodes []*gocql.HostInfo
	up    map[*gocql.HostInfo]bool // for each node that was tried, whether it is up
}

func (j *joining) expect(hosts []*gocql.HostInfo) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.nodes = slices.Clone(hosts)
}

// tried records the result for a node. It may be called before expect.
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

// state reports whether a node is up, and whether all were tried.
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

// Ready implements gocql.ReadyPolicy. It is called after each try of a node.
func (a *around) Ready() bool {
	elapsed := loop.Stopwatch()
	for ends := elapsed() + joinWithin; ; time.Sleep(joinLook) {
		if some, all := a.joining.state(); all || elapsed() > ends {
			return some
		}
	}
}

// HostUp is called when a node is connected.
func (a *around) HostUp(host *gocql.HostInfo) {
	a.HostSelectionPolicy.HostUp(host)
	a.joining.tried(host, true)
}

// HostDown is called when a node cannot be connected.
func (a *around) HostDown(host *gocql.HostInfo) {
	a.HostSelectionPolicy.HostDown(host)
	a.joining.tried(host, false)
}
