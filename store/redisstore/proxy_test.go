//go:build servers

package redisstore

import (
	"io"
	"net"
	"sync"
	"testing"
)

// proxy is a network between a node and its server that can fail.
type proxy struct {
	listener net.Listener
	wg       sync.WaitGroup

	mu    sync.Mutex
	to    string
	hole  bool // takes what comes and passes nothing on, as a cable that is cut does
	conns map[net.Conn]struct{}
	open  chan struct{} // closed when the hole is filled
}

func startProxy(t testing.TB, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, to: to, conns: map[net.Conn]struct{}{}, open: make(chan struct{})}
	close(p.open)
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.fill()
		p.cut()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) address() string { return p.listener.Addr().String() }

func (p *proxy) accept() {
	for {
		near, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.wg.Go(func() { p.serve(near) })
	}
}

func (p *proxy) serve(near net.Conn) {
	defer near.Close()
	if !p.keep(near) {
		return
	}
	p.wait()
	p.mu.Lock()
	to := p.to
	p.mu.Unlock()
	far, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer far.Close()
	p.keep(far)
	done := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
		p.wg.Go(func() {
			p.carry(way[0], way[1])
			done <- struct{}{}
		})
	}
	<-done
}

func (p *proxy) carry(from, to net.Conn) {
	buffer := make([]byte, 1<<15)
	for {
		n, err := from.Read(buffer)
		p.wait()
		if err != nil {
			if err == io.EOF {
				_ = to.Close()
			}
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func (p *proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[c] = struct{}{}
	return true
}

func (p *proxy) wait() {
	p.mu.Lock()
	open := p.open
	p.mu.Unlock()
	<-open
}

// dig makes the network swallow everything; nobody is told.
func (p *proxy) dig() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.hole {
		p.hole, p.open = true, make(chan struct{})
	}
}

// fill ends dig. What was swallowed comes late, as on a real network.
func (p *proxy) fill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hole {
		p.hole = false
		close(p.open)
	}
}

// cut breaks every connection; new ones are taken.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
	clear(p.conns)
}

// turn leads to another server from now on.
func (p *proxy) turn(to string) {
	p.mu.Lock()
	p.to = to
	p.mu.Unlock()
	p.cut()
}
