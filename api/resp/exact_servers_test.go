//go:build servers

package resp_test

import (
	"fmt"
	"net"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly/product/kv"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/fixture"
	"github.com/mayflyhq/mayfly/test/pace"
)

// A redis-server and a server of ours get the same keys: a million that are not due (ten
// in the long form) and 1,000 that end at one instant and that are not read in Redis. Ours
// announces all of them, and no read finds one from that instant on. What Redis has
// removed and announced is only reported: a read of it is as exact, but what is not read
// it finds by samples. How late our events are is judged by
// TestKeysAreGoneAtTheirMillisecondAmongMillions, which a busy machine does not delay.
func TestRedisBesideUsWithTheSameKeys(t *testing.T) {
	pace.Heavy(t, "it writes a million keys to two servers")
	const due = 1000
	others, wait := 1_000_000, 20*time.Second
	if pace.Long() {
		others, wait = 10_000_000, time.Minute
	}
	e := serve(t, change{
		settings: func(s *kv.Settings) { s.Events, s.Quota = true, 0 },
		store:    func(store.KV) store.KV { return openKeys(t) },
	})
	e.realTime.Store(true)
	lifetime := func(i int) time.Duration { return time.Hour + time.Duration(i%86_400_000)*time.Millisecond }
	space, err := e.kv.OpenOwned(t.Context(), fixture.Ana(), "cache")
	e.Must(err)
	fill(t, space, e.read(), others, lifetime)
	both := map[string]func() *client{"ours": e.connect, "redis": startRedis(t)}
	pipeline(both["redis"](), others, func(i int) []string {
		return []string{"SET", otherKey(i), otherValue, "PX", fmt.Sprint(lifetime(i).Milliseconds())}
	})

	type events struct {
		n, last atomic.Int64  // how many have come, and when the last one did
		all     chan struct{} // closed when one has come for each due key
	}
	heard := map[string]*events{}
	for name, connect := range both {
		c, h := connect(), &events{all: make(chan struct{})}
		c.want(`["subscribe" "__keyevent@0__:expired" (1)]`, "SUBSCRIBE", "__keyevent@0__:expired")
		e.Must(c.nc.SetReadDeadline(time.Time{}))
		heard[name] = h
		go func() { // ends with the connection
			for {
				if _, err := readAnswer(c.in); err != nil {
					return
				}
				h.last.Store(time.Now().UnixMilli())
				if h.n.Add(1) == due {
					close(h.all)
				}
			}
		}()
	}
	ours, redis := both["ours"](), both["redis"]()
	deadline := time.Now().Add(5 * time.Second).UnixMilli()
	read := []string{"MGET"}
	for i := range due {
		read = append(read, fmt.Sprintf("due:%d", i))
	}
	for _, c := range []*client{ours, redis} {
		pipeline(c, due, func(i int) []string { return []string{"SET", read[1+i], "v", "PXAT", fmt.Sprint(deadline)} })
	}

	// The server reads its clock between the sending and the answer. Both must be on the
	// same side of the deadline to tell what has to be found.
	before, after, lost, late := 0, 0, 0, 0
	for time.Now().UnixMilli() < deadline+500 || after == 0 {
		sent := time.Now().UnixMilli()
		found := strings.Count(ours.do(read...), `"v"`)
		switch answered := time.Now().UnixMilli(); {
		case answered < deadline:
			before++
			lost += due - found
		case sent >= deadline:
			after++
			late += found
		}
	}
	select {
	case <-heard["ours"].all:
	case <-time.After(time.Minute):
	}
	time.Sleep(time.Until(time.UnixMilli(deadline).Add(wait)))
	removed, counted := heard["redis"].n.Load(), map[string]int64{}
	for name, c := range map[string]*client{"ours": ours, "redis": redis} {
		counted[name] = number(c.do("DBSIZE")) - int64(others)
	}
	found := strings.Count(redis.do(read...), `"v"`)

	if before == 0 || lost > 0 || late > 0 {
		t.Errorf("%d readings of %d keys before their expiry missed %d, %d after it found %d", before, due, lost, after, late)
	}
	if n := heard["ours"].n.Load(); n != due {
		t.Errorf("%d keys expired, and %d were announced", due, n)
	}
	const proof = "keys beside redis-server"
	storetest.Proof(t, proof, "keys that are not due", others)
	storetest.Proof(t, proof, "due keys, readings before and after, missed, found late", fmt.Sprintf("%d, %d and %d, %d, %d", due, before, after, lost, late))
	storetest.Proof(t, proof, "announced by us, the last one after", fmt.Sprintf("%d, %d ms", heard["ours"].n.Load(), heard["ours"].last.Load()-deadline))
	storetest.Proof(t, proof, fmt.Sprintf("after %s: announced by Redis, still counted by its DBSIZE, found by a read of it", wait), fmt.Sprintf("%d, %d, %d", removed, counted["redis"], found))
	storetest.Proof(t, proof, fmt.Sprintf("after %s: counted by our DBSIZE", wait), counted["ours"])
}

// pipeline sends commands in pipelines of 1,000, and expects OK to each.
func pipeline(c *client, n int, command func(i int) []string) {
	c.t.Helper()
	const at = 1000
	for from := 0; from < n; from += at {
		var text strings.Builder
		to := min(from+at, n)
		for i := from; i < to; i++ {
			text.WriteString(encode(command(i)...))
		}
		c.send(text.String())
		for range to - from {
			if got := c.answer(); got != "OK" {
				c.t.Fatalf("got %s", got)
			}
		}
	}
}

// startRedis starts a redis-server that keeps nothing on the disk and announces expired
// keys, and returns how to connect to it. It is stopped when the test ends.
func startRedis(t *testing.T) (connect func() *client) {
	t.Helper()
	address := storetest.Address(t)
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	process := exec.Command("redis-server", "--bind", "127.0.0.1", "--port", port, "--dir", t.TempDir(), "--save", "", "--appendonly", "no", "--notify-keyspace-events", "Ex")
	if err := process.Start(); err != nil {
		t.Fatalf("redis-server: %v (docs/servers.md says how to get it)", err)
	}
	t.Cleanup(func() {
		_ = process.Process.Kill() // it may have ended
		_ = process.Wait()         // it was killed
	})
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		nc, err := net.Dial("tcp", address)
		if err == nil {
			_ = nc.Close()
			break
		}
		if time.Since(begun) > 30*time.Second {
			t.Fatalf("redis-server does not listen: %v", err)
		}
	}
	return func() *client { return dial(t, address) }
}
