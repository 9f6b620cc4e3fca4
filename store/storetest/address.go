package storetest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

// Ports of servers that a test stops and starts again lie below those that systems
// give to clients (32768 and more on Linux) and those of deploy/servers.
const (
	firstPort = 10_000
	lastPort  = 19_999
)

var given = struct {
	mu    sync.Mutex
	ports map[int]bool
}{ports: map[int]bool{}}

// Address is a free one on loopback that nobody else is given in this program, nor
// any client while its server is away.
func Address(t testing.TB) string {
	t.Helper()
	given.mu.Lock()
	defer given.mu.Unlock()
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		if given.ports[port] {
			continue
		}
		address := fmt.Sprintf("127.0.0.1:%d", port)
		l, err := net.Listen("tcp", address)
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		given.ports[port] = true
		return address
	}
	t.Fatal("no free port")
	return ""
}
