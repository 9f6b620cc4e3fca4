package cassandrastore

import (
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

// around hands out the nodes for a request as the policy in it does, those that are
// silent last, and begins again at its end. To the driver a second asking that finds
// no node left is a failed request, whatever the first one is still going to answer.
type around struct {
	gocql.HostSelectionPolicy
	silences *silences
	several  func() bool // nodes are in the ring
	joining  joining
}

// rounds are enough for every try of a request and its second asking, even if
// only one node is up.
const rounds = tries + 1

// Init is called by the driver before it picks.
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

// pick asks the policy. At the first use of a text the driver has some node prepare
// it, to learn where its partition key is, and waits for that node even if it hangs.
// When a second node would be asked this is waited for no longer: any node will do.
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

// AddHosts spares the policy the work of AddHost for each.
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
