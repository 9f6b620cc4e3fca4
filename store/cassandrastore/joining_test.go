package cassandrastore

import (
	"testing"
	"testing/synctest"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

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
