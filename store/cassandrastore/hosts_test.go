package cassandrastore

import (
	"testing"
	"testing/synctest"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

// node is a node that a policy hands out.
type node struct {
	gocql.SelectedHost
	name string
}

// hosts are the nodes by their names.
var hosts = map[string]*gocql.HostInfo{"a": {}, "b": {}, "c": {}}

func (n node) Info() *gocql.HostInfo { return hosts[n.name] }

// request is what a policy picks nodes for.
type request struct {
	gocql.ExecutableStatement
	twice bool
}

func (r request) IsIdempotent() bool { return r.twice }

// handedOut are the names of all nodes that a policy hands out for a request.
func handedOut(t *testing.T, policy *around, q request) (names string) {
	t.Helper()
	next := policy.Pick(q)
	for host := next(); host != nil; host = next() {
		names += host.(node).name
	}
	if next() != nil {
		t.Error("behind the last node there is another")
	}
	return names
}

// picks hands out nodes once each.
type picks struct {
	gocql.HostSelectionPolicy
	nodes []string
}

func (picks) HostUp(*gocql.HostInfo)     {}
func (picks) HostDown(*gocql.HostInfo)   {}
func (picks) AddHost(*gocql.HostInfo)    {}
func (picks) RemoveHost(*gocql.HostInfo) {}

func (p picks) Pick(gocql.ExecutableStatement) gocql.NextHost {
	left := p.nodes
	return func() gocql.SelectedHost {
		if len(left) == 0 {
			return nil
		}
		next := node{name: left[0]}
		left = left[1:]
		return next
	}
}

func TestASpeculativeRequestAlwaysFindsANode(t *testing.T) {
	for name, c := range map[string]struct {
		up      []string
		several bool
		want    string
	}{
		"three nodes":             {[]string{"a", "b", "c"}, true, "abcabcabcabc"},
		"one of three is up":      {[]string{"a"}, true, "aaaa"},
		"none of three is up":     {nil, true, ""},
		"a ring of one, as it is": {[]string{"a"}, false, "a"},
	} {
		policy := &around{HostSelectionPolicy: picks{nodes: c.up}, silences: newSilences(discard()), several: func() bool { return c.several }}
		if got := handedOut(t, policy, request{}); got != c.want {
			t.Errorf("%s: %q are handed out, want %q", name, got, c.want)
		}
	}
}

// learns waits for a node that prepares the text of a request, if there is one.
type learns struct {
	picks
	prepared chan struct{}
}

func (l learns) Pick(q gocql.ExecutableStatement) gocql.NextHost {
	if q != nil {
		<-l.prepared
	}
	return l.picks.Pick(q)
}

func TestAStatementThatANodeNeverPreparesIsSentToAnyNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		prepared := make(chan struct{})
		policy := &around{
			HostSelectionPolicy: learns{picks{nodes: []string{"a", "b"}}, prepared},
			silences:            newSilences(discard()), several: func() bool { return false },
		}
		begun := time.Now()
		got := handedOut(t, policy, request{})
		if took := time.Since(begun); got != "ab" || took != secondAfter {
			t.Errorf("%q are handed out after %s, want all after %s", got, took, secondAfter)
		}
		close(prepared)
		begun = time.Now()
		if got := handedOut(t, policy, request{}); got != "ab" || time.Since(begun) > 0 {
			t.Errorf("%q are handed out after %s, want all at once", got, time.Since(begun))
		}
	})
}

func TestOnlyIdempotentRequestsAreSentToASecondNode(t *testing.T) {
	may := map[operation]bool{
		readLedger: true, readRows: true, settleDoubt: true,
		birth: true, eraseContent: true, writePlain: true, // their stamps stand in the statements
		change: false, setUp: false,
	}
	for d := readLedger; d <= setUp; d++ {
		want, reported := may[d]
		if l := d.level(); !reported || l.again != want {
			t.Errorf("operation %d may be asked twice: %t, want %t", d, l.again, want)
		}
	}
	alone := &Store{session: &gocql.Session{}, second: secondAsking()}
	if p := alone.patience(readLedger.level()); p.Attempts() != 0 {
		t.Errorf("a ring of one is asked %d times more", p.Attempts())
	}
	if p := secondAsking(); p.Attempts() != 1 || p.Delay() > time.Second {
		t.Errorf("%d further askings after %s", p.Attempts(), p.Delay())
	}
}

func TestASessionOpensWithoutANodeThatHangs(t *testing.T) {
	left := &gocql.HostInfo{} // the ring
	for name, c := range map[string]struct {
		up, down []string
		ready    bool
		after    time.Duration
	}{
		"all are up":           {[]string{"a", "b", "c"}, nil, true, 0},
		"one is down":          {[]string{"a", "b"}, []string{"c"}, true, 0},
		"one hangs":            {[]string{"a", "b"}, nil, true, joinWithin},
		"two hang":             {[]string{"a"}, nil, true, joinWithin},
		"one hangs, none else": {nil, []string{"a", "b"}, false, joinWithin},
		"all are down":         {nil, []string{"a", "b", "c"}, false, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			policy := &around{HostSelectionPolicy: picks{}, silences: newSilences(discard())}
			policy.AddHosts([]*gocql.HostInfo{hosts["a"], hosts["b"], hosts["c"], left})
			go func() { // the driver says so a little after it has asked
				time.Sleep(joinLook / 2)
				policy.RemoveHost(left)
				for _, n := range c.up {
					policy.HostUp(hosts[n])
				}
				for _, n := range c.down {
					policy.HostDown(hosts[n])
				}
			}()
			begun := time.Now()
			if got := policy.Ready(); got != c.ready {
				t.Errorf("%s: ready %t, want %t", name, got, c.ready)
			}
			if took := time.Since(begun); took < c.after || took > c.after+2*joinLook {
				t.Errorf("%s: reported after %s, want %s", name, took, c.after)
			}
		})
	}
}

func TestANodeMayBeUpBeforeItIsExpected(t *testing.T) {
	policy := &around{HostSelectionPolicy: picks{}, silences: newSilences(discard())}
	policy.HostUp(hosts["a"])
	policy.AddHosts([]*gocql.HostInfo{hosts["a"]})
	if some, all := policy.joining.state(); !some || !all {
		t.Errorf("some are up %t, all were tried %t", some, all)
	}
}
