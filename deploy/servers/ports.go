package main

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
)

// The ports lie below those of outgoing connections (from 32768 on Linux), so that a
// killed node gets its own port again.
const (
	firstPort = 20000
	lastPort  = 31999
)

// ports allocates unused ports. It holds a lock on each until close, when the servers
// listen, so that two runs never get the same port.
type ports struct {
	folder string
	held   []*os.File
}

// take allocates a port that is free on all addresses.
func (p *ports) take(addresses ...string) (int, error) {
	if err := os.MkdirAll(p.folder, 0o700); err != nil {
		return 0, err
	}
	var last error
	for range 200 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		f, err := tryLock(filepath.Join(p.folder, strconv.Itoa(port)))
		if err != nil {
			last = err
			continue
		}
		if last = free(port, addresses); last == nil {
			p.held = append(p.held, f)
			return port, nil
		}
		f.Close()
	}
	return 0, fmt.Errorf("no free port on %v: %w", addresses, last)
}

func free(port int, addresses []string) error {
	for _, a := range addresses {
		l, err := net.Listen("tcp4", net.JoinHostPort(a, strconv.Itoa(port)))
		if err != nil {
			return fmt.Errorf("%w (macOS: sudo ifconfig lo0 alias %s)", err, a)
		}
		l.Close()
	}
	return nil
}

func (p *ports) close() {
	for _, f := range p.held {
		f.Close()
	}
	p.held = nil
}
