package storetest

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// Ports of servers that a test stops and starts again lie below those that systems
// give to clients (32768 and more on Linux) and those of deploy/servers.
const (
	firstPort = 10_000
	lastPort  = 19_999
)

// Address is a free one on loopback. Until the test ends no other test of this
// program is given it, nor any client while its server is away.
func Address(t testing.TB) string {
	t.Helper()
	folder := filepath.Join(os.TempDir(), fmt.Sprintf("mayfly-ports-%d", os.Getpid()))
	for range 1000 {
		if err := os.MkdirAll(folder, 0o700); err != nil { // the last test that ended took it away
			t.Fatal(err)
		}
		port := strconv.Itoa(firstPort + rand.IntN(lastPort-firstPort+1))
		given, err := os.OpenFile(filepath.Join(folder, port), os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := errors.Join(given.Close(), os.Remove(given.Name())); err != nil {
				t.Error(err)
			}
			_ = os.Remove(folder) // the last one does
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
	t.Fatal("no free port")
	return ""
}
