package resp_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/resp"
	"github.com/mayflyhq/mayfly/engine/clock"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/product/kv"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/memstore"
	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/fixture"
)

// env is a server on the embedded rows and the model of the store. Its clock stands
// still until a test moves it, unless real is called.
type env struct {
	*fixture.Engine
	kv       *kv.KV
	server   *resp.Server
	accounts *account.Accounts
	address  string
	key      mayfly.Secret // of the namespace cache
	stop     func()

	now      atomic.Int64
	doubt    atomic.Bool
	realTime atomic.Bool
}

func (e *env) read() clock.Reading {
	now := mayfly.Instant(e.now.Load())
	if e.realTime.Load() {
		now = mayfly.InstantOf(time.Now())
	}
	if e.doubt.Load() {
		return clock.Reading{Now: now.Add(time.Hour), Steady: now, Err: mayfly.Errorf(mayfly.Unavailable, "the clock is in doubt")}
	}
	return clock.Reading{Now: now, Steady: now, Confirmed: true}
}

func (e *env) pass(d time.Duration) { e.now.Add(d.Milliseconds()) }

type change struct {
	settings func(*kv.Settings)
	options  func(*resp.Options)
	store    func(store.KV) store.KV
	cluster  bool
	listener net.Listener // nil: a port of the loopback
}

// serve starts a server with a namespace of ana, called cache.
func serve(t testing.TB, changes ...change) *env {
	t.Helper()
	e := &env{Engine: fixture.Open(t)}
	e.now.Store(int64(fixture.Start))
	signing, err := account.LoadKey(filepath.Join(t.TempDir(), "key"))
	e.Must(err)
	e.accounts, err = account.New(t.Context(), account.Options{Rows: e.Set.Rows, Signals: e.Set.Signals, Limits: e.Set.Limits, Key: signing, AddressReads: account.Rate{Count: 5, Per: time.Hour}})
	e.Must(err)
	t.Cleanup(func() { e.Must(e.accounts.Close()) })
	var entries store.KV = storetest.NewKVModel()
	var l net.Listener
	cluster := false
	for _, c := range changes {
		if c.listener != nil {
			l = c.listener
		}
		if c.cluster {
			entries, cluster = storetest.KVClusterModel{KVModel: storetest.NewKVModel()}, true
		}
		if c.store != nil {
			entries = c.store(entries)
		}
	}
	e.kv, err = kv.New(kv.Options{Rows: e.Set.Rows, Store: entries, Limits: memstore.NewLimits(100), Cluster: cluster})
	e.Must(err)
	settings := e.kv.Defaults()
	o := resp.Options{KV: e.kv, Read: e.read, Accounts: e.accounts, Version: "test"}
	for _, c := range changes {
		if c.settings != nil {
			c.settings(&settings)
		}
		if c.options != nil {
			c.options(&o)
		}
	}
	_, e.key, err = e.kv.Create(t.Context(), fixture.Ana(), "cache", settings, fixture.Start)
	e.Must(err)
	e.server, err = resp.NewServer(o)
	e.Must(err)
	if l == nil {
		l, err = net.Listen("tcp", "127.0.0.1:0")
		e.Must(err)
	}
	e.address = l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.server.Serve(ctx, l) }()
	e.stop = func() {
		cancel()
		if err, open := <-ended; open {
			e.Must(err)
			close(ended)
		}
	}
	t.Cleanup(func() { e.stop() })
	return e
}

// client is a connection whose answers are texts.
type client struct {
	t  testing.TB
	nc net.Conn
	in *bufio.Reader
}

func dial(t testing.TB, address string) *client {
	t.Helper()
	nc, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	return &client{t, nc, bufio.NewReader(nc)}
}

// connect returns a client that has opened the namespace.
func (e *env) connect() *client {
	e.Helper()
	c := dial(e.TB, e.address)
	c.want("OK", "AUTH", "cache", e.key.Reveal())
	return c
}

func encode(args ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	return b.String()
}

func (c *client) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c.nc, text); err != nil {
		c.t.Fatal(err)
	}
}

// do sends a command and returns the answer.
func (c *client) do(args ...string) string {
	c.t.Helper()
	c.send(encode(args...))
	return c.answer()
}

func (c *client) want(answer string, args ...string) {
	c.t.Helper()
	if got := c.do(args...); got != answer {
		c.t.Errorf("%s: got %q, want %q", strings.Join(args, " "), got, answer)
	}
}

// script sends one command a line, in words, and compares the answers behind ->.
func (c *client) script(lines string) {
	c.t.Helper()
	for line := range strings.Lines(lines) {
		words, answer, found := strings.Cut(strings.TrimSpace(line), " ->")
		if !found {
			continue
		}
		c.send(words + "\r\n")
		if got := strings.TrimSpace(c.answer()); got != strings.TrimSpace(answer) {
			c.t.Errorf("%s: got %s, want %s", words, got, answer)
		}
	}
}

func (c *client) answer() string {
	c.t.Helper()
	_ = c.nc.SetReadDeadline(time.Now().Add(20 * time.Second))
	s, err := readAnswer(c.in)
	if err != nil {
		c.t.Fatalf("read an answer: %v", err)
	}
	return s
}

// wantEnd expects that the server closes the connection.
func (c *client) wantEnd() {
	c.t.Helper()
	_ = c.nc.SetReadDeadline(time.Now().Add(20 * time.Second))
	if s, err := readAnswer(c.in); err == nil {
		c.t.Errorf("got %q, want the end of the connection", s)
	} else if t, ok := err.(net.Error); ok && t.Timeout() {
		c.t.Error("the connection is still open")
	}
}

// readAnswer returns an answer as a text: OK, (1), "bulk", nil, [a b], {a b}, >[a b], or
// the error with its dash.
func readAnswer(in *bufio.Reader) (string, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimSuffix(line, "\r\n")
	kind, rest := line[0], line[1:]
	n, _ := strconv.Atoi(rest)
	switch kind {
	case '+':
		return rest, nil
	case '-':
		return line, nil
	case ':':
		return "(" + rest + ")", nil
	case '_':
		return "nil", nil
	case '$', '=':
		if n < 0 {
			return "nil", nil
		}
		b := make([]byte, n+2)
		_, err := io.ReadFull(in, b)
		return strconv.Quote(string(b[:n])), err
	case '*', '%', '>':
		if n < 0 {
			return "nil array", nil
		}
		open, end := "[", "]"
		switch kind {
		case '%':
			n, open, end = 2*n, "{", "}"
		case '>':
			open = ">["
		}
		parts := make([]string, n)
		for i := range parts {
			if parts[i], err = readAnswer(in); err != nil {
				return "", err
			}
		}
		return open + strings.Join(parts, " ") + end, nil
	}
	return "", fmt.Errorf("an answer that begins with %q", line)
}
