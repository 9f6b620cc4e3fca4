package main

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
)

// Ports lie below those that systems give to outgoing connections (32768 and
// more on Linux), so that a killed node finds its own again.
const (
	firstPort = 20000
	lastPort  = 31999
)

// ports hands out ports that nobody uses. It holds a lock on each until close,
// when the servers listen: two runs at once do not get the same one.
type ports struct {
	folder string
	held   []*os.File
}

// take finds a port that is free on all the addresses.
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
