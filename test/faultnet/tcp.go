// Package faultnet puts a network that fails between a client and a server in
// tests: Line for TCP, Proxy for HTTP. A fault happens only when the test asks for
// it. It is never part of the product.
package faultnet

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// Line is a TCP connection between a client and its server that a test makes
// fail.
type Line struct {
	listener net.Listener
	wg       sync.WaitGroup
	loses    atomic.Int32 // a Direction
	skips    atomic.Int32 // how many reads pass in that direction before one is lost
	lost     atomic.Int64

	mu    sync.Mutex
	to    string
	conns map[net.Conn]struct{}
	open  chan struct{} // closed but while everything is swallowed
}

// Direction is which way bytes go.
type Direction int32

// The directions of Lose.
const (
	Nothing Direction = iota
	Request           // the server never sees it
	Answer            // the server has done what was asked
)

// NewLine leads to a server until the test ends.
func NewLine(t testing.TB, to string) *Line {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &Line{listener: listener, to: to, conns: map[net.Conn]struct{}{}, open: make(chan struct{})}
	close(l.open)
	l.wg.Go(l.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		l.Restore()
		l.Cut()
		l.wg.Wait()
	})
	return l
}

// Address is where clients dial.
func (l *Line) Address() string { return l.listener.Addr().String() }

// Swallow takes what comes and passes nothing on, as a cable that is cut does:
// neither end is notified.
func (l *Line) Swallow() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.swallows() {
		l.open = make(chan struct{})
	}
}

// Restore ends Swallow. What was swallowed comes late, as on a real network.
func (l *Line) Restore() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.swallows() {
		close(l.open)
	}
}

// Lose loses the next bytes that go in a direction, and with them their
// connection, after so many reads have passed. Nothing ends it.
func (l *Line) Lose(d Direction, skips int32) {
	l.skips.Store(skips)
	l.loses.Store(int32(d))
}

// Lost returns how often bytes were lost.
func (l *Line) Lost() int64 { return l.lost.Load() }

// Cut breaks every connection; new ones are taken.
func (l *Line) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		_ = c.Close() // it may be closed already
	}
}

// Turn leads to another server from now on, and breaks what led to the one before.
func (l *Line) Turn(to string) {
	l.mu.Lock()
	l.to = to
	l.mu.Unlock()
	l.Cut()
}

func (l *Line) swallows() bool {
	select {
	case <-l.open:
		return false
	default:
		return true
	}
}

func (l *Line) accept() {
	for {
		near, err := l.listener.Accept()
		if err != nil {
			return
		}
		l.wg.Go(func() { l.serve(near) })
	}
}

func (l *Line) serve(near net.Conn) {
	defer l.keep(near)()
	to := l.wait()
	far, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer l.keep(far)()
	var both sync.WaitGroup
	for d, way := range map[Direction][2]net.Conn{Request: {near, far}, Answer: {far, near}} {
		both.Go(func() {
			l.carry(way[0], way[1], d)
			_ = way[0].Close() // the one end's is the other's
			_ = way[1].Close()
		})
	}
	both.Wait()
}

func (l *Line) carry(from, to net.Conn, d Direction) {
	buffer := make([]byte, 1<<15)
	for {
		n, err := from.Read(buffer)
		l.wait()
		if n > 0 && l.loses.Load() == int32(d) && l.skips.Add(-1) < 0 && l.loses.CompareAndSwap(int32(d), int32(Nothing)) {
			l.lost.Add(1)
			return
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// keep remembers a connection until it is dropped.
func (l *Line) keep(c net.Conn) (drop func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns[c] = struct{}{}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.conns, c)
		_ = c.Close() // it may be closed already
	}
}

// wait waits while everything is swallowed, and says where the line leads.
func (l *Line) wait() (to string) {
	l.mu.Lock()
	open := l.open
	l.mu.Unlock()
	<-open
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to
}
