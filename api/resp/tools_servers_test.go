//go:build servers

package resp_test

import (
	"net"
	"os/exec"
	"strings"
	"testing"
)

// The programs of the Debian package redis-tools, which redis-server needs.
func TestTheToolsOfRedisWork(t *testing.T) {
	e := serve(t)
	e.realTime.Store(true)
	host, port, err := net.SplitHostPort(e.address)
	e.Must(err)
	run := func(program string, args ...string) string {
		t.Helper()
		args = append([]string{"-h", host, "-p", port, "--user", "cache", "-a", e.key.Reveal()}, args...)
		out, err := exec.CommandContext(t.Context(), program, args...).Output()
		if err != nil {
			t.Fatalf("%s: %v\n%s", program, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	for _, c := range []struct{ command, want string }{
		{"SET k v PX 60000", "OK"}, {"GET k", "v"}, {"TTL k", "60"}, {"SET n 1", "OK"}, {"MGET k n", "v\n1"}, {"--scan --pattern k*", "k"}, {"HSET h f v", "ERR unknown command 'HSET', with args beginning with: 'h' 'f' 'v'"},
	} {
		for _, protocol := range []string{"-2", "-3"} {
			if got := run("redis-cli", append([]string{protocol}, strings.Fields(c.command)...)...); got != c.want {
				t.Errorf("redis-cli %s %s: got %q, want %q", protocol, c.command, got, c.want)
			}
		}
	}
	for _, pipeline := range []string{"1", "16"} {
		out := run("redis-benchmark", "-t", "set,get,incr,mset", "-n", "5000", "-c", "20", "-P", pipeline, "-q")
		t.Log(strings.ReplaceAll(out, "\r", "\n"))
		for _, test := range []string{"SET: ", "GET: ", "INCR: ", "MSET (10 keys): "} {
			if !strings.Contains(out, test) {
				t.Errorf("redis-benchmark -P %s did not finish %s\n%s", pipeline, test, out)
			}
		}
	}
}
