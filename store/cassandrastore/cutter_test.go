//go:build servers

package cassandrastore

import (
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store/loop"
)

// cutter stands between the store and the server and loses what it is told to.
type cutter struct {
	t        testing.TB
	listener net.Listener
	upstream string
	loses    atomic.Int32 // which way bytes are lost
	skips    atomic.Int32 // how many times bytes pass that way before they are
	lost     atomic.Int64
	wg       sync.WaitGroup
	mu       sync.Mutex
	open     []net.Conn
}

// What a cutter loses, and with it the connection.
const (
	losesNothing int32 = iota
	losesRequest       // the server never sees it
	losesAnswer        // the server has done it
)

func newCutter(t testing.TB) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := serverOptions(t, house)
	c := &cutter{t: t, listener: l, upstream: net.JoinHostPort(o.Hosts[0], strconv.Itoa(o.Port))}
	c.wg.Go(c.accept)
	t.Cleanup(func() {
		_ = l.Close()
		c.mu.Lock()
		for _, conn := range c.open {
			_ = conn.Close()
		}
		c.mu.Unlock()
		c.wg.Wait()
	})
	return c
}

// lose loses what goes that way, after it has let some pass.
func (c *cutter) lose(way, skips int32) {
	c.skips.Store(skips)
	c.loses.Store(way)
}

func (c *cutter) port() int { return c.listener.Addr().(*net.TCPAddr).Port }

func (c *cutter) accept() {
	for {
		client, err := c.listener.Accept()
		if err != nil {
			return
		}
		upstream, err := net.Dial("tcp", c.upstream)
		if err != nil {
			c.t.Errorf("the server behind the cutter: %v", err)
			_ = client.Close()
			return
		}
		c.mu.Lock()
		c.open = append(c.open, client, upstream)
		c.mu.Unlock()
		c.wg.Go(func() { c.pass(upstream, client, losesRequest) })
		c.wg.Go(func() { c.pass(client, upstream, losesAnswer) })
	}
}

// pass copies until it is told to lose what comes.
func (c *cutter) pass(to, from net.Conn, way int32) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && c.loses.Load() == way && c.skips.Add(-1) < 0 && c.loses.CompareAndSwap(way, losesNothing) {
			c.lost.Add(1)
			return
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if errors.Is(err, io.EOF) || err != nil {
			return
		}
	}
}

// awaitOpen waits until the store has connections again.
func awaitOpen(t testing.TB, s *Store) {
	t.Helper()
	for {
		_, err := s.Ledger().Get(t.Context(), mayfly.ID{})
		if err == nil {
			return
		}
		if loop.Rest(t.Context(), 10*time.Millisecond) != nil {
			t.Fatal(err)
		}
	}
}

// openCut opens the store through a cutter. Of a ring it sees that one node: the
// others would be found past the cutter.
func openCut(t testing.TB) (*Store, *cutter) {
	t.Helper()
	openHouse(t) // the schema is made without it
	c := newCutter(t)
	o, err := serverOptions(t, house).complete()
	if err != nil {
		t.Fatal(err)
	}
	o.Hosts, o.Port, o.Connections = []string{"127.0.0.1"}, c.port(), 3
	config, err := clusterConfig(o, o.Keyspace)
	if err != nil {
		t.Fatal(err)
	}
	config.HostFilter = gocql.WhiteListHostFilter(o.Hosts...)
	config.ReconnectInterval = 100 * time.Millisecond
	session, err := config.CreateSession()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(session.Close)
	return newStore(o, session), c
}
