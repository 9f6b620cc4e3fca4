//go:build servers

package cluster

import (
	"bufio"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store/storetest"
)

// Redis is emptied and killed while a sweep is under way: nothing in it is needed
// for a right answer or for an expiry (I19).
func TestASweepDoesNotFeelThatRedisIsEmptiedAndKilled(t *testing.T) {
	t.Parallel()
	const proof = "Redis emptied and killed"
	const most = 5 * time.Second
	r := seeded(t)
	w := reusedCluster(t, servers(t).beside(t, "redis"))
	a, b := w.start("a", nil), w.start("b", nil)
	w.awaitShared(a, b)
	l := w.begin(loadOptions{
		seed: r.Uint64(), writers: 4, readers: 2, lifetimes: []string{"4s", "4s", "6s"}, pause: unhurried, nodes: []*process{a, b},
	})
	each := pick(150, 1500)
	l.goOn(each, 100, 2*time.Minute)
	time.Sleep(4 * time.Second) // the first of them have expired, with Redis

	emptied := time.Now()
	flushAll(t, w.servers.env["REDIS"])
	l.goOn(each/3, 50, time.Minute)
	w.servers.kill(t, "redis", 1)
	killed := time.Now()
	l.goOn(each, 100, 2*time.Minute)
	time.Sleep(4 * time.Second)
	w.servers.start(t, "redis", 1)
	returned := time.Now()
	l.goOn(each/3, 50, time.Minute)
	l.finish()
	answers := clone(w.record.answers)
	end := w.audit()
	end.lag = most
	end.close(proof)
	onlyAnswers(t, "reads", answers, "2xx", "404", "410")
	before, meanwhile := end.events.expiredIn(w.began.Time(), emptied), end.events.expiredIn(emptied, returned)
	storetest.Proof(t, proof, "without Redis for", returned.Sub(killed).Round(time.Millisecond))
	storetest.Proof(t, proof, "expiries with Redis, and late by at p99", fmt.Sprintf("%d, %s", len(before), p99(before)))
	storetest.Proof(t, proof, "expiries emptied and without, and late by at p99", fmt.Sprintf("%d, %s", len(meanwhile), p99(meanwhile)))
	if len(before) < 50 || len(meanwhile) < 100 {
		t.Errorf("%d and %d expiries tell nothing", len(before), len(meanwhile))
	}
	if p99(meanwhile) > 3*p99(before)+500*time.Millisecond {
		t.Errorf("late by %s without Redis, by %s with it", p99(meanwhile), p99(before))
	}
}

// expiredIn is how late the items were that fell due in a span.
func (e *events) expiredIn(from, to time.Time) []time.Duration {
	part := &events{all: map[mayfly.EventKey]mayfly.Event{}}
	for k, x := range e.all {
		if due := x.ID.Deadline().Time(); due.After(from) && due.Before(to) {
			part.all[k] = x
		}
	}
	return part.expiries()
}

// p99 of what is sorted.
func p99(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	return all[len(all)*99/100]
}

// flushAll empties a Redis.
func flushAll(t testing.TB, address string) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }() // it has answered
	if _, err := fmt.Fprintf(conn, "FLUSHALL\r\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || line != "+OK\r\n" {
		t.Fatalf("%q, %v", line, err)
	}
}
