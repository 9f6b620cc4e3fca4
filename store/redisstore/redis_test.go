//go:build servers

package redisstore

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly/store/loop"
)

// redis is a server of one test, which may break it. The servers of the environment are shared.
type redis struct {
	testing.TB
	port    string
	args    []string
	process *exec.Cmd
}

func startRedis(t testing.TB, args ...string) *redis {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	r := &redis{TB: t, port: port, args: append([]string{
		"--bind", "127.0.0.1", "--port", port, "--cluster-port", busPort(port), "--dir", folder, "--save", "", "--appendonly", "yes", "--appendfsync", "no",
		"--logfile", filepath.Join(folder, "log"), "--repl-diskless-sync-delay", "0",
	}, args...)}
	r.start()
	t.Cleanup(r.kill)
	return r
}

func (r *redis) address() string { return "127.0.0.1:" + r.port }

func (r *redis) start() {
	r.Helper()
	r.process = exec.Command("redis-server", r.args...)
	if err := r.process.Start(); err != nil {
		r.Fatalf("redis-server: %v (docs/servers.md says how to get it)", err)
	}
	r.until("the server answers", func() bool { return strings.Contains(r.try("PING"), "PONG") })
}

// kill ends the server without a shutdown.
func (r *redis) kill() {
	if r.process == nil {
		return
	}
	_ = r.process.Process.Kill()
	_ = r.process.Wait()
	r.process = nil
}

func (r *redis) signal(s syscall.Signal) {
	r.Helper()
	if err := r.process.Process.Signal(s); err != nil {
		r.Fatal(err)
	}
}

// try returns the reply to a command, or the text of the error.
func (r *redis) try(words ...string) string {
	conn, err := net.DialTimeout("tcp", r.address(), time.Second)
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	text := fmt.Sprintf("*%d\r\n", len(words))
	for _, w := range words {
		text += "$" + strconv.Itoa(len(w)) + "\r\n" + w + "\r\n"
	}
	if _, err := conn.Write([]byte(text)); err != nil {
		return err.Error()
	}
	answer := make([]byte, 1<<16)
	n, err := conn.Read(answer)
	if err != nil {
		return err.Error()
	}
	return string(answer[:n])
}

func (r *redis) must(words ...string) {
	r.Helper()
	if answer := r.try(words...); strings.HasPrefix(answer, "-") || !strings.ContainsAny(answer[:1], "+:$*") {
		r.Fatalf("%v: %s", words, answer)
	}
}

func (r *redis) until(what string, holds func() bool) {
	r.Helper()
	until(r, what, holds)
}

// until polls for a condition in another process, which cannot signal this one.
func until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for !holds() {
		if loop.Rest(ctx, 5*time.Millisecond) != nil {
			t.Fatalf("timed out waiting: %s", what)
		}
	}
}

// linked reports whether a replica has caught up with its master.
func (r *redis) linked() bool {
	return strings.Contains(r.try("INFO", "replication"), "master_link_status:up")
}

// known returns how many nodes of the cluster a node knows.
func (r *redis) known() int {
	return strings.Count(r.try("CLUSTER", "NODES"), " connected")
}

func (r *redis) clusterID() string {
	_, id, _ := strings.Cut(r.try("CLUSTER", "MYID"), "\r\n")
	return strings.TrimSpace(id)
}

// busPort returns the port of the cluster bus. The usual one, 10,000 above the
// client port, may be out of range.
func busPort(port string) string {
	n, _ := strconv.Atoi(port)
	return strconv.Itoa(n - 10_000)
}
