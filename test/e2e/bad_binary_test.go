package e2e

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly/test/pace"
)

// The real binary's listener is the one that has the bounds (C9): what `mayfly
// serve` builds holds them, and its memory stays where it was.
func TestTheRealBinaryHoldsItsBounds(t *testing.T) {
	pace.Slow(t, "real connections time out")
	s := startServer(t, "listen:\n  header_timeout: 1s\n  body_timeout: 1s\n  idle_timeout: 2s\n  max_connections: 64\nrates:\n  address_reads: 0/1h\n  address_writes: 0/1h\ndisk:\n  floor: 0\n")
	address := strings.TrimPrefix(s.api, "http://")
	before := s.resident()
	cases := []struct {
		name, text string
		status     int // 0: closed without an answer
	}{
		{"a header of a megabyte", "GET / HTTP/1.1\r\nHost: x\r\nX-A: " + strings.Repeat("x", 1<<20), 431},
		{"thousands of headers", "GET / HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("X-A: x\r\n", 100_000), 431},
		{"headers that never end", "GET / HTTP/1.1\r\nHost: x\r\nX-A: ", 0},
		{"nothing", "", 0},
		{"a body that never comes", "POST /v1/token HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n", 400},
		{"a body that the route does not read", "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n", 200},
		{"two lengths", "POST /v1/token HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400},
		{"a terabyte", "POST /v1/token HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1099511627776\r\n\r\n", 413},
		{"a path that is none", "GET /v1/../key HTTP/1.1\r\nHost: x\r\n\r\n", 400},
	}
	const each = 20 // many more than may be connected at once
	var at sync.WaitGroup
	for _, c := range cases {
		for range each {
			at.Go(func() {
				if status, err := sendRaw(address, c.text); status != c.status {
					t.Errorf("%s: %d, not %d: %v", c.name, status, c.status, err)
				}
			})
		}
	}
	at.Wait()
	res, err := s.client.Get(s.api + "/")
	if err != nil {
		t.Fatal(err)
	}
	if err := res.Body.Close(); err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("afterwards: %d %v", res.StatusCode, err)
	}
	after := s.resident()
	if after-before > 64<<20 {
		t.Errorf("resident memory grew from %d to %d MiB", before>>20, after>>20)
	}
	t.Logf("%d bad clients of %d kinds, 64 at a time; resident memory %d MiB before, %d MiB after", each*len(cases), len(cases), before>>20, after>>20)
}

// sendRaw sends a text and waits for an answer; 0 is none.
func sendRaw(address, text string) (status int, err error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return -1, err
	}
	defer func() { _ = conn.Close() }() // it was answered
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return -1, err
	}
	go func() { _, _ = io.WriteString(conn, text) }() // the server may hang up in the middle
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	var late net.Error
	if errors.As(err, &late) && late.Timeout() {
		return -1, err
	}
	if err != nil {
		return 0, err
	}
	return res.StatusCode, res.Body.Close()
}

// resident is the memory that the server's process has, by its own metrics.
func (s *server) resident() int64 {
	s.Helper()
	res, err := s.client.Get(s.admin + "/metrics")
	if err != nil {
		s.Fatal(err)
	}
	text, err := io.ReadAll(res.Body)
	if err = errors.Join(err, res.Body.Close()); err != nil {
		s.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^process_resident_memory_bytes (\S+)$`).FindSubmatch(text)
	if found == nil {
		s.Fatal("no resident memory among the metrics")
	}
	bytes, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		s.Fatal(err)
	}
	return int64(bytes)
}

// O1: what a configuration must not say is refused before anything is opened,
// with what to do; and a folder that is in use is left alone.
func TestAServerRefusesABadBeginning(t *testing.T) {
	path, err := buildBinary()
	if err != nil {
		t.Fatal(err)
	}
	s := startServer(t, "disk:\n  floor: 0\n")
	used := filepath.Join(s.process.Dir, "data")
	cases := []struct {
		name, file string
		args, env  []string
		code       int
		says       []string
	}{
		{"an unknown key", "walk:\n  intervall: 1s\n", nil, nil, 2, []string{"walk.intervall: unknown key", "did you mean walk.interval?", "mayfly.yaml:2"}},
		{"an unknown part", "storys:\n  live: 1\n", nil, nil, 2, []string{"storys", "stories"}},
		{"an unknown key on the command line", "", []string{"--set", "stories.lives=1"}, nil, 2, []string{"stories.lives", "did you mean stories.live?"}},
		{"an unknown key in the environment", "", nil, []string{"MAYFLY_STORIES_LIVES=1"}, 2, []string{"MAYFLY_STORIES_LIVES"}},
		{"a value that is none", "stories:\n  live: many\n", nil, nil, 2, []string{"stories.live"}},
		{"a value out of range", "listen:\n  idle_timeout: 1ms\n", nil, nil, 2, []string{"listen.idle_timeout", "1ms"}},
		{"no YAML", "stories: [\n", nil, nil, 2, []string{"mayfly.yaml"}},
		{"a key twice", "stories:\n  live: 1\n  live: 2\n", nil, nil, 2, []string{"live"}},
		{"an address that is none", "", []string{"--listen", "nowhere:nothing"}, nil, 0, []string{"→"}},
		{"a folder that another uses", "", []string{"--data", used}, nil, 3, []string{"→", "stop that one"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			folder := t.TempDir()
			file := filepath.Join(folder, "mayfly.yaml")
			if err := os.WriteFile(file, []byte(c.file), 0o600); err != nil {
				t.Fatal(err)
			}
			run := exec.CommandContext(t.Context(), path, append([]string{"serve", "--config", file, "--data", filepath.Join(folder, "data"), "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"}, c.args...)...)
			run.Dir, run.Env = folder, append(os.Environ(), c.env...)
			out, err := run.CombinedOutput()
			code := run.ProcessState.ExitCode()
			if code == 0 || c.code != 0 && code != c.code {
				t.Errorf("exit code %d, wanted %d (%v)", code, c.code, err)
			}
			for _, want := range c.says {
				if !strings.Contains(string(out), want) {
					t.Errorf("no %q in\n%s", want, out)
				}
			}
		})
	}
	res, err := s.client.Get(s.api + "/")
	if err != nil {
		t.Fatal(err)
	}
	if err := res.Body.Close(); err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("the server that was there first: %d %v", res.StatusCode, err)
	}
}
