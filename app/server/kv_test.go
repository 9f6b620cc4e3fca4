package server

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
)

func kvKey(t *testing.T, l *Local, namespace string) string {
	t.Helper()
	key, _, err := l.Node.KV().AddKey(t.Context(), mayfly.UserID{}, namespace, l.Now())
	if err != nil {
		t.Fatal(err)
	}
	return key.Reveal()
}

// askKV sends inline commands and compares the first line of each answer.
func askKV(t *testing.T, c net.Conn, steps ...[2]string) {
	t.Helper()
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(c)
	for _, s := range steps {
		if _, err := fmt.Fprintf(c, "%s\r\n", s[0]); err != nil {
			t.Fatal(err)
		}
		if got, err := in.ReadString('\n'); err != nil || !strings.HasPrefix(got, s[1]) {
			t.Fatalf("%.12s: got %q, %v, want %q", s[0], got, err, s[1])
		}
	}
}

func TestTheRedisProtocolIsServedWithTheCertificateOfTheAPI(t *testing.T) {
	cert, certKey, pool := writeCert(t, t.TempDir(), "first")
	l := start(t, func(c *config.Config) {
		c.Listen.KV, c.Listen.Cert, c.Listen.Key, c.KV.Namespaces = "127.0.0.1:0", cert, certKey, []string{"cache"}
	})
	key := kvKey(t, l, "cache")
	c, err := tls.Dial("tcp", l.KV(), &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	askKV(t, c, [2]string{"GET k", "-NOAUTH"}, [2]string{"AUTH cache wrong", "-WRONGPASS"}, [2]string{"AUTH nothing " + key, "-WRONGPASS"},
		[2]string{"AUTH cache " + key, "+OK"}, [2]string{"SET k v PX 60000", "+OK"}, [2]string{"GET k", "$1"})
	plain, err := net.Dial("tcp", l.KV())
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	if _, err := io.WriteString(plain, "PING\r\n"); err != nil {
		t.Fatal(err)
	}
	if err := plain.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(plain); strings.Contains(string(got), "NOAUTH") {
		t.Errorf("a client without TLS got %q, %v", got, err)
	}
	res, err := http.Get(l.Admin() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	for _, want := range []string{`mayfly_connections{listener="kv"}`, "mayfly_kv_commands_total ", "mayfly_kv_live_bytes "} {
		if err != nil || !strings.Contains(string(metrics), want) {
			t.Errorf("%s is not in the metrics, %v", want, err)
		}
	}
}

func TestClientsOfTheRedisProtocolAreLimited(t *testing.T) {
	l := start(t, func(c *config.Config) { c.Listen.KV, c.Listen.Connections = "127.0.0.1:0", 2 })
	for i := range 3 {
		c, err := net.Dial("tcp", l.KV())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		want := "-NOAUTH"
		if i == 2 {
			want = "-ERR max number of clients reached"
		}
		askKV(t, c, [2]string{"PING", want})
	}
}

func TestAnAddressOfTheRedisProtocolThatIsInUseIsAnError(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	c := config.Default()
	c.Data, c.Disk.Floor, c.Listen.API, c.Listen.Admin, c.Listen.KV = t.TempDir(), 0, "127.0.0.1:0", "127.0.0.1:0", busy.Addr().String()
	l, err := Start(t.Context(), c, LocalOptions{Log: discard()})
	if err == nil {
		_ = l.Stop(t.Context())
		t.Fatal("it listens at an address that is in use")
	}
	if !strings.Contains(err.Error(), "listen.kv") {
		t.Errorf("the error names no setting: %v", err)
	}
}
