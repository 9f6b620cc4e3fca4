package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestMain can also run as a small server: with an address in the environment this
// binary answers PING as Redis does, so that the commands have a real process to manage
// without any server installed.
func TestMain(m *testing.M) {
	if address := os.Getenv("ANSWER_PING_AT"); address != "" {
		answerPing(address)
		return
	}
	os.Exit(m.Run())
}

func answerPing(address string) {
	l, err := net.Listen("tcp4", address)
	if err != nil {
		fmt.Println("cannot listen:", err)
		os.Exit(1)
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			for lines := bufio.NewScanner(c); lines.Scan(); { // *words, then $length and word for each
				words, _ := strconv.Atoi(strings.TrimPrefix(lines.Text(), "*"))
				answer := "+OK\r\n"
				for range words {
					if lines.Scan(); lines.Scan() && lines.Text() == "PING" {
						answer = "+PONG\r\n"
					}
				}
				_, _ = io.WriteString(c, answer)
			}
		}()
	}
}

// testRunner returns a runner with its own state folder.
func testRunner(t *testing.T, args ...string) (*runner, *strings.Builder) {
	t.Helper()
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	return reopen(t, filepath.Join(t.TempDir(), "state"), args...)
}

// reopen returns another runner on an existing state folder.
func reopen(t *testing.T, folder string, args ...string) (*runner, *strings.Builder) {
	t.Helper()
	o, err := parse(append(args, "--state", folder))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	r, err := newRunner(o, &out, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return r, &out
}

// startPing starts a server that answers PING, under the name redis.
func startPing(t *testing.T, r *runner) node {
	t.Helper()
	lock, err := r.lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	p := &ports{folder: t.TempDir()}
	defer p.close()
	st, err := r.load()
	if err != nil {
		t.Fatal(err)
	}
	s, err := r.createServer(redis{masters: 1}, st, "redis", p)
	if err != nil {
		t.Fatal(err)
	}
	n := &s.Nodes[0]
	n.Command = command{Args: []string{os.Args[0]}, Env: []string{"ANSWER_PING_AT=" + n.at("redis")}}
	if err := r.startNode(st, s, n); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = n.Process.kill(context.Background())
	})
	if err := r.await(t.Context(), *s, s.Nodes); err != nil {
		t.Fatal(err)
	}
	return *n
}
