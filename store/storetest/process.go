package storetest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
)

// Servers that a test stops and starts again get ports below those that systems give
// to clients (32768 and more on Linux) and below those of deploy/servers.
const (
	firstPort = 10_000
	lastPort  = 19_999
)

// Address returns a free address on loopback. Until the test ends, no other test gets
// it, of this program or of another, and no client does while its server is stopped.
func Address(t testing.TB) string {
	t.Helper()
	folder := filepath.Join(os.TempDir(), fmt.Sprintf("mayfly-ports-%d", os.Getuid()))
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		port := strconv.Itoa(firstPort + rand.IntN(lastPort-firstPort+1))
		held, err := os.OpenFile(filepath.Join(folder, port), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		address := "127.0.0.1:" + port
		if !lock(held) || !free(address) {
			_ = held.Close()
			continue
		}
		t.Cleanup(func() {
			if err := held.Close(); err != nil {
				t.Error(err)
			}
		})
		return address
	}
	t.Fatalf("no free port between %d and %d", firstPort, lastPort)
	return ""
}

func free(address string) bool {
	l, err := net.Listen("tcp", address)
	return err == nil && l.Close() == nil
}

// LogBuffer is a buffer for a log that is read while it is written. The zero
// LogBuffer is empty.
type LogBuffer struct {
	mu  sync.Mutex
	out bytes.Buffer
}

// Write implements io.Writer.
func (b *LogBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.out.Write(p)
}

// String returns what was written so far.
func (b *LogBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.out.String()
}
