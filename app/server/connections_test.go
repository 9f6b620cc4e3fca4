package server

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly/app/config"
)

// testListener serves on loopback until the test ends.
func testListener(t *testing.T, set func(*config.Listen)) *listener {
	t.Helper()
	c := config.Default().Listen
	c.API = "127.0.0.1:0"
	set(&c)
	l, err := newListener(c, newConnMetrics("api"), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "hello")
	}), discard())
	if err != nil {
		t.Fatal(err)
	}
	both := &listeners{api: l}
	failed := both.serve()
	t.Cleanup(func() {
		if err := both.close(); err != nil {
			t.Error(err)
		}
		select {
		case err := <-failed:
			t.Error(err)
		default:
		}
	})
	return l
}

// connect connects to a listener from an address of the loopback network.
func connect(t *testing.T, l *listener, from string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	conn, err := d.DialContext(t.Context(), "tcp", l.listen.Addr().String())
	if err != nil {
		t.Skipf("this system has no %s by default: %v", from, err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // often closed by the server before
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// ask sends a request on a connection, and leaves the connection open.
func ask(conn net.Conn) error {
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		return err
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, res.Body)
	return errors.Join(err, res.Body.Close())
}

func TestOneAddressCannotHoldEveryConnection(t *testing.T) {
	l := testListener(t, func(c *config.Listen) { c.Connections, c.PerAddress = 20, 5 })
	var held sync.WaitGroup
	for range 40 {
		conn := connect(t, l, "127.0.0.1")
		held.Go(func() { _, _ = conn.Read(make([]byte, 1)) }) // sends nothing, and waits
	}
	for range 3 {
		if err := ask(connect(t, l, "127.0.0.2")); err != nil {
			t.Fatalf("another address gets no answer: %v", err)
		}
	}
}

func TestIdleConnectionsMakeRoomWhenTheListenerIsNearlyFull(t *testing.T) {
	l := testListener(t, func(c *config.Listen) { c.Connections, c.PerAddress = 20, 20 })
	for i := range 60 { // each stays open, and idle
		if err := ask(connect(t, l, "127.0.0.1")); err != nil {
			t.Fatalf("connection %d gets no answer: %v", i, err)
		}
	}
}

func TestATrustedProxyHasNoShareOfItsOwn(t *testing.T) {
	l := testListener(t, func(c *config.Listen) {
		c.Connections, c.PerAddress, c.Proxies = 20, 2, []string{"127.0.0.0/24"}
	})
	for i := range 10 {
		if err := ask(connect(t, l, "127.0.0.1")); err != nil {
			t.Fatalf("connection %d of a trusted proxy gets no answer: %v", i, err)
		}
	}
}

func TestConnectionsAreGivenBackWhenTheyClose(t *testing.T) {
	l := testListener(t, func(c *config.Listen) { c.Connections, c.PerAddress = 10, 3 })
	for i := range 30 {
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		for {
			conn := connect(t, l, "127.0.0.1")
			err := ask(conn)
			_ = conn.Close()
			if err == nil {
				break
			}
			if ctx.Err() != nil { // the server learns that a connection is closed a moment later
				t.Fatalf("connection %d gets no answer: %v", i, err)
			}
		}
		stop()
	}
}

func TestAClientIsAnIPv4AddressOrAnIPv6Network(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"192.0.2.1", "192.0.2.1", true},
		{"192.0.2.1", "192.0.2.2", false},
		{"192.0.2.1", "::ffff:192.0.2.1", true},
		{"2001:db8:0:1::1", "2001:db8:0:1:ffff::2", true},
		{"2001:db8:0:1::1", "2001:db8:0:2::1", false},
	} {
		a, b := clientOf(&net.TCPAddr{IP: net.ParseIP(c.a)}), clientOf(&net.TCPAddr{IP: net.ParseIP(c.b)})
		if !a.IsValid() || (a == b) != c.same {
			t.Errorf("%s is %s, and %s is %s", c.a, a, c.b, b)
		}
	}
}
