package server

import (
	"container/list"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mayflyhq/mayfly/api/httpapi"
)

// connections is a listener that bounds how many connections are open, and how
// many of them one client has: an IPv4 address, or a /64 network of IPv6, which is
// what one subscriber gets. A client over its share is closed at once. When the
// listener is nearly full, the connection that was idle longest is closed, so that
// clients that keep connections open do not keep others out (C9).
type connections struct {
	net.Listener
	most, share int
	trusted     httpapi.Proxies // have no share
	slots       chan struct{}   // one for each open connection
	closed      chan struct{}
	closeOnce   sync.Once
	metrics     connMetrics

	mu      sync.Mutex
	clients map[netip.Prefix]int
	idle    *list.List // of *conn, the longest idle first
}

// limitConnections returns a listener with so many connections at most.
func limitConnections(l net.Listener, most, share int, trusted httpapi.Proxies, m connMetrics) *connections {
	return &connections{
		Listener: l, most: most, share: share, trusted: trusted, metrics: m,
		slots: make(chan struct{}, most), closed: make(chan struct{}), clients: map[netip.Prefix]int{}, idle: list.New(),
	}
}

// Accept returns the next connection of a client that is within its share. It
// waits while the listener is full.
func (l *connections) Accept() (net.Conn, error) {
	for {
		select {
		case l.slots <- struct{}{}:
		case <-l.closed:
			return nil, net.ErrClosed
		}
		c, err := l.Listener.Accept()
		if err != nil {
			<-l.slots
			return nil, err
		}
		if admitted := l.admit(c); admitted != nil {
			return admitted, nil
		}
		_ = c.Close() // the client is over its share: it gets no answer
		<-l.slots
		l.metrics.refused.Inc()
	}
}

// Close closes the listener; connections stay open.
func (l *connections) Close() error {
	l.closeOnce.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// conn is an accepted connection.
type conn struct {
	net.Conn
	from   *connections
	client netip.Prefix  // zero: has no share
	idle   *list.Element // nil while it is not idle; guarded by from.mu
	once   sync.Once
}

// Close closes the connection and gives its place to another.
func (c *conn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { c.from.release(c) })
	return err
}

// SyscallConn gives access to the socket, for writes that must not wait.
func (c *conn) SyscallConn() (syscall.RawConn, error) {
	inner, ok := c.Conn.(syscall.Conn)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return inner.SyscallConn()
}

// admit returns the connection, or nil if its client is over its share.
func (l *connections) admit(c net.Conn) *conn {
	client := clientOf(c.RemoteAddr())
	admitted := &conn{Conn: c, from: l, client: client}
	l.mu.Lock()
	switch {
	case l.trusted.Trust(client.Addr()):
		admitted.client = netip.Prefix{}
	case l.clients[client] >= l.share:
		l.mu.Unlock()
		return nil
	default:
		l.clients[client]++
	}
	l.mu.Unlock()
	l.metrics.open.Inc()
	l.makeRoom()
	return admitted
}

func (l *connections) release(c *conn) {
	l.mu.Lock()
	if l.setBusy(c); c.client.IsValid() {
		if l.clients[c.client]--; l.clients[c.client] == 0 {
			delete(l.clients, c.client)
		}
	}
	l.mu.Unlock()
	l.metrics.open.Dec()
	<-l.slots
}

// setBusy takes c off the list of idle connections; the caller holds l.mu.
func (l *connections) setBusy(c *conn) {
	if c.idle != nil {
		l.idle.Remove(c.idle)
		c.idle = nil
	}
}

// noteState is the ConnState function of the server: it learns which connections
// are idle.
func (l *connections) noteState(nc net.Conn, state http.ConnState) {
	if secure, ok := nc.(*tls.Conn); ok {
		nc = secure.NetConn()
	}
	c, ok := nc.(*conn)
	if !ok {
		return
	}
	l.mu.Lock()
	l.setBusy(c)
	if state == http.StateIdle {
		c.idle = l.idle.PushBack(c)
	}
	l.mu.Unlock()
	if state == http.StateIdle {
		l.makeRoom()
	}
}

// makeRoom closes the connection that was idle longest if less than a tenth of the
// places is free. A client that is just sending a request on it sends it again, as
// with every connection that was kept open.
func (l *connections) makeRoom() {
	if len(l.slots) <= l.most-(l.most+9)/10 {
		return
	}
	l.mu.Lock()
	oldest := l.idle.Front()
	if oldest == nil {
		l.mu.Unlock()
		return
	}
	c := oldest.Value.(*conn)
	l.setBusy(c)
	l.mu.Unlock()
	l.metrics.closedIdle.Inc()
	_ = c.Close() // nothing was being sent
}

// clientOf returns the network that shares one limit; zero if the address has no
// IP.
func clientOf(address net.Addr) netip.Prefix {
	tcp, ok := address.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	addr, bits := tcp.AddrPort().Addr().Unmap().WithZone(""), 32
	if addr.Is6() {
		bits = 64
	}
	client, _ := addr.Prefix(bits) // the bits are right for the address
	return client
}

// connMetrics are the metrics of the connections of one listener.
type connMetrics struct {
	open                prometheus.Gauge
	refused, closedIdle prometheus.Counter
}

func newConnMetrics(listener string) connMetrics {
	labels := prometheus.Labels{"listener": listener}
	return connMetrics{
		open: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "mayfly", Name: "connections", ConstLabels: labels, Help: "Open connections, by listener.",
		}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "mayfly", Name: "connections_refused_total", ConstLabels: labels, Help: "Connections of clients over listen.max_connections_per_address, by listener.",
		}),
		closedIdle: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "mayfly", Name: "connections_closed_idle_total", ConstLabels: labels, Help: "Idle connections that were closed early because the listener was nearly full, by listener.",
		}),
	}
}

func (m connMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.open, m.refused, m.closedIdle}
}
