package e2e

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly/store/storetest"
)

// redisClient is a connection to the key-value store of the real binary.
type redisClient struct {
	net.Conn
	in *bufio.Reader
}

func dialRedis(t *testing.T, address string) *redisClient {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // the server may have closed it
	return &redisClient{c, bufio.NewReader(c)}
}

// do sends a command and returns the answer without its length.
func (c *redisClient) do(command string) (string, error) {
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return "", err
	}
	if _, err := fmt.Fprintf(c, "%s\r\n", command); err != nil {
		return "", err
	}
	line, err := c.in.ReadString('\n')
	if strings.HasPrefix(line, "$") && line != "$-1\r\n" {
		line, err = c.in.ReadString('\n')
	}
	return strings.TrimSuffix(line, "\r\n"), err
}

// Below the free-space floor keys are read and deleted, and nothing is written.
func TestBelowTheFreeSpaceFloorKeysAreReadAndDeleted(t *testing.T) {
	at, folder := storetest.Address(t), t.TempDir()
	settings := "listen:\n  kv: " + at + "\nkv:\n  namespaces: [cache]\ndisk:\n  floor: "
	s := serveIn(t, folder, settings+"64MiB\n")
	key := s.addKVKey(folder, "cache")
	open := func() func(command, answer string) {
		c := dialRedis(t, at)
		return func(command, answer string) {
			t.Helper()
			if got, err := c.do(command); err != nil || got != answer {
				t.Errorf("%.10s: got %q, %v, want %q", command, got, err, answer)
			}
		}
	}
	want := open()
	want("AUTH cache "+key, "+OK")
	want("SET k v", "+OK")
	s.stop()
	s = serveIn(t, folder, settings+"1000000GiB\n")
	const full = "-OOM command not allowed when used memory > 'maxmemory'. (free some space or enlarge the disk; entries are still served and deleted)"
	want = open()
	want("AUTH cache "+key, "+OK")
	want("SET k w", full)
	want("INCR n", full)
	want("GET k", "v")
	put := func(method string, status int, has string) {
		t.Helper()
		a, err := s.send(t.Context(), request{method: method, target: "/v1/kv/cache/keys/k", header: http.Header{"Authorization": {"Bearer " + key}}, body: []byte("w")})
		if err != nil || a.status != status || !contains(a, has) {
			t.Errorf("%s: %d %s, %v", method, a.status, a.body, err)
		}
	}
	put(http.MethodPut, http.StatusInsufficientStorage, "free some space or enlarge the disk")
	put(http.MethodDelete, http.StatusNoContent, "")
	want("GET k", "$-1")
}

// addKVKey makes a key of a namespace of the configuration.
func (s *server) addKVKey(folder, namespace string) string {
	s.Helper()
	path, err := buildBinary()
	if err != nil {
		s.Fatal(err)
	}
	out, err := exec.Command(path, "kv", "key", "add", namespace, "--data", filepath.Join(folder, "data"), "--by", "ana", "--reason", "a test").Output()
	if err != nil {
		s.Fatalf("%v: %s", err, out)
	}
	return strings.TrimSpace(string(out))
}

// The real binary is killed under writes and started again: every write that it has
// acknowledged is there, and nothing that has expired (K1, K2).
func TestTheKeyValueStoreKeepsAcknowledgedWritesOverAKill(t *testing.T) {
	address := storetest.Address(t)
	folder, settings := t.TempDir(), "listen:\n  kv: "+address+"\nkv:\n  namespaces: [cache, other]\ndisk:\n  floor: 64MiB\n"
	s := serveIn(t, folder, settings)
	cache, other := s.addKVKey(folder, "cache"), s.addKVKey(folder, "other")
	c := dialRedis(t, address)
	want := func(command, answer string) {
		t.Helper()
		if got, err := c.do(command); err != nil || got != answer {
			t.Errorf("%.10s: got %q, %v, want %q", command, got, err, answer)
		}
	}
	want("GET k", "-NOAUTH Authentication required.")
	want("AUTH cache "+other, "-WRONGPASS invalid username-password pair or user is disabled.")
	want("AUTH cache "+cache, "+OK")
	want("SET brief v PX 1", "+OK")
	want("SET gone v", "+OK")
	want("DEL gone", ":1")
	killed := time.AfterFunc(500*time.Millisecond, func() { _ = s.process.Process.Kill() }) // it runs: the writes below end with it
	defer killed.Stop()
	acknowledged := 0
	for {
		if answer, err := c.do(fmt.Sprintf("SET k%d v%d", acknowledged, acknowledged)); err != nil || answer != "+OK" {
			break
		}
		acknowledged++
	}
	_ = s.process.Wait() // it was killed
	if acknowledged == 0 {
		t.Fatal("no write was acknowledged")
	}
	serveIn(t, folder, settings)
	c = dialRedis(t, address)
	want("AUTH cache "+cache, "+OK")
	for i := range acknowledged {
		want(fmt.Sprintf("GET k%d", i), fmt.Sprintf("v%d", i))
	}
	want("GET brief", "$-1")
	want("GET gone", "$-1")
	t.Logf("%d acknowledged writes are there after a kill", acknowledged)
}
