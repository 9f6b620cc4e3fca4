package e2e

import (
	"bufio"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
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

// The real binary is killed under writes and started again: every write that it has
// acknowledged is there, and nothing that has expired (K1, K2).
func TestTheKeyValueStoreKeepsAcknowledgedWritesOverAKill(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	folder, settings := t.TempDir(), "listen:\n  kv: "+address+"\nkv:\n  namespaces: [cache, other]\ndisk:\n  floor: 64MiB\n"
	s := serveIn(t, folder, settings)
	path, err := buildBinary()
	if err != nil {
		t.Fatal(err)
	}
	key := func(namespace string) string {
		t.Helper()
		out, err := exec.Command(path, "kv", "key", "add", namespace, "--data", filepath.Join(folder, "data"), "--by", "ana", "--reason", "a test").Output()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
	cache, other := key("cache"), key("other")
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
