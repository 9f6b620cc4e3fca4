package cassandrastore

import (
	"testing"
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

func TestASecondAskingAlwaysFindsANode(t *testing.T) {
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

func TestOnlyWhatIsTheSameTwiceIsAskedOfASecondNode(t *testing.T) {
	may := map[deed]bool{
		readLedger: true, readRows: true, settleDoubt: true,
		birth: true, eraseContent: true, writePlain: true, // their stamps stand in the statements
		change: false, setUp: false,
	}
	for d := readLedger; d <= setUp; d++ {
		want, told := may[d]
		if l := d.level(); !told || l.again != want {
			t.Errorf("deed %d may be asked twice: %t, want %t", d, l.again, want)
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
