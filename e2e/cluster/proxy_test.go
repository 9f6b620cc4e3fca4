//go:build servers

package cluster

import (
	"net"
	"sync"
	"testing"
)

// proxy is a network between a node and a server that can be cut.
type proxy struct {
	listener net.Listener
	to       string
	wg       sync.WaitGroup

	mu    sync.Mutex
	hole  bool // takes what comes and passes nothing on, as a cable that is cut does
	conns map[net.Conn]struct{}
	open  chan struct{} // closed while there is no hole
}

func startProxy(t testing.TB, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, to: to, conns: map[net.Conn]struct{}{}, open: make(chan struct{})}
	close(p.open)
	p.wg.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.serve(near) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.mend()
		p.mu.Lock()
		for c := range p.conns {
			_ = c.Close()
		}
		p.mu.Unlock()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) address() string { return p.listener.Addr().String() }

func (p *proxy) serve(near net.Conn) {
	defer p.keep(near)()
	p.wait()
	far, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	defer p.keep(far)()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
		both.Go(func() {
			p.carry(way[0], way[1])
			_ = way[0].Close()
			_ = way[1].Close()
		})
	}
	both.Wait()
}

func (p *proxy) carry(from, to net.Conn) {
	buffer := make([]byte, 1<<15)
	for {
		n, err := from.Read(buffer)
		p.wait()
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

func (p *proxy) keep(c net.Conn) (drop func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[c] = struct{}{}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, c)
		_ = c.Close()
	}
}

func (p *proxy) wait() {
	p.mu.Lock()
	open := p.open
	p.mu.Unlock()
	<-open
}

// cut makes the network swallow everything from now on; nobody is told.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.hole {
		p.hole, p.open = true, make(chan struct{})
	}
}

// mend ends cut. What was swallowed comes late, as on a real network.
func (p *proxy) mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hole {
		p.hole = false
		close(p.open)
	}
}
