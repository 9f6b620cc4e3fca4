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

// TestMain is also a small server: started with an address, this binary answers
// PING as Redis does, so that the verbs meet a real process without any server
// installed.
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

// testHouse is one with a state folder of its own, as --state makes it.
func testHouse(t *testing.T, args ...string) (*house, *strings.Builder) {
	t.Helper()
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	return again(t, filepath.Join(t.TempDir(), "state"), args...)
}

// again is another run on a state folder.
func again(t *testing.T, folder string, args ...string) (*house, *strings.Builder) {
	t.Helper()
	o, err := parse(append(args, "--state", folder))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	h, err := openHouse(o, &out, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return h, &out
}

// startPing lays out and starts a server that answers PING, under the name of one
// that does.
func startPing(t *testing.T, h *house) node {
	t.Helper()
	lock, err := h.lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	p := &ports{folder: t.TempDir()}
	defer p.close()
	st, err := h.load()
	if err != nil {
		t.Fatal(err)
	}
	s, err := h.layOut(redis{masters: 1}, st, "redis", p)
	if err != nil {
		t.Fatal(err)
	}
	n := &s.Nodes[0]
	n.Command = command{Args: []string{os.Args[0]}, Env: []string{"ANSWER_PING_AT=" + n.at("redis")}}
	if err := h.begin(st, s, n); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = n.Process.kill(context.Background())
	})
	if err := h.await(t.Context(), *s, s.Nodes); err != nil {
		t.Fatal(err)
	}
	return *n
}
