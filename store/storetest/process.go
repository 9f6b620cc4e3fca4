package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
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

// Address returns a free address on loopback. Until the test ends, no other test of
// this program gets it, and no client does while its server is stopped.
func Address(t testing.TB) string {
	t.Helper()
	folder := filepath.Join(os.TempDir(), fmt.Sprintf("mayfly-ports-%d", os.Getpid()))
	for range 1000 {
		if err := os.MkdirAll(folder, 0o700); err != nil { // a test that ended may have removed it
			t.Fatal(err)
		}
		port := strconv.Itoa(firstPort + rand.IntN(lastPort-firstPort+1))
		file, err := os.OpenFile(filepath.Join(folder, port), os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := errors.Join(file.Close(), os.Remove(file.Name())); err != nil {
				t.Error(err)
			}
			_ = os.Remove(folder) // fails while other tests use it
		})
		address := "127.0.0.1:" + port
		l, err := net.Listen("tcp", address)
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		return address
	}
	t.Fatalf("no free port between %d and %d", firstPort, lastPort)
	return ""
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
