package profile

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/test/pace"
	"github.com/mayflyhq/mayfly/test/tables"
)

// nowhere is a cluster whose servers are not there: each port was free a moment ago.
func nowhere(t testing.TB) config.Config {
	t.Helper()
	port := func() string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		return l.Addr().String()
	}
	c := config.Default()
	c.Data, c.Profile, c.Node, c.Tokens.KeyFile = t.TempDir(), config.Cluster, "a", "key"
	c.Cassandra.Hosts, c.Redis.Addresses, c.Kafka.Brokers = []string{port()}, []string{port()}, []string{port()}
	c.S3.Endpoint, c.S3.Hot, c.S3.Cold, c.S3.Deletions = "http://"+port(), "media/hot", "media/cold", "media/deletions"
	c.Cassandra.User, c.Redis.User, c.Kafka.User = "ana", "ana", "ana"
	c.Cassandra.Password, c.Redis.Password, c.Kafka.Password, c.S3.Key, c.S3.Secret = "canary", "canary", "canary", "canary", "canary"
	return c
}

func steady() Time {
	return Time{Now: func() mayfly.Instant { return 1 }, Elapsed: func() time.Duration { return time.Second }}
}

func TestServersThatAreAwayAreEachNamed(t *testing.T) {
	c := nowhere(t)
	found := Check(t.Context(), c, steady())
	if len(found) != 4 {
		t.Fatalf("%d findings", len(found))
	}
	for _, f := range found {
		var said *mayfly.Error
		if !errors.Is(f.Err, mayfly.Unavailable) || !errors.As(f.Err, &said) || !strings.Contains(f.Err.Error(), f.Server) || f.At == "" {
			t.Errorf("%s at %s: %v", f.Server, f.At, f.Err)
		}
		if strings.Contains(fmt.Sprintf("%v %+v", f.Err, f), "canary") {
			t.Errorf("%s: the password is in %v", f.Server, f.Err)
		}
	}
	if _, err := Open(t.Context(), c, tables.All(), steady()); !errors.Is(err, mayfly.Unavailable) {
		t.Errorf("it opens without its servers: %v", err)
	}
	if found := Check(t.Context(), small("data"), steady()); len(found) != 0 {
		t.Errorf("the embedded profile has servers: %v", found)
	}
}

func TestASecretMayBeInAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(path, []byte("canary\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[mayfly.Secret]string{"": "", "word": "word", mayfly.Secret("file:" + path): "canary"} {
		if got, err := secret("redis.password", text); err != nil || got.Reveal() != want {
			t.Errorf("%q, %v", got.Reveal(), err)
		}
	}
	for _, bad := range []string{path + "-not", filepath.Dir(path), "/dev/zero"} {
		if _, err := secret("redis.password", mayfly.Secret("file:"+bad)); !errors.Is(err, mayfly.Invalid) || !strings.Contains(err.Error(), "redis.password") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestAnAuthorityThatIsNoneIsRefusedBeforeAnythingIsSent(t *testing.T) {
	pace.Slow(t, "connections time out")
	path := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(path, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, authority := range []string{path, path + "-not"} {
		for name, spoil := range map[string]func(*config.Config){
			"cassandra": func(c *config.Config) { c.Cassandra.TLS, c.Cassandra.Authority = true, authority },
			"kafka":     func(c *config.Config) { c.Kafka.TLS, c.Kafka.Authority = true, authority },
			"redis":     func(c *config.Config) { c.Redis.TLS, c.Redis.Authority = true, authority },
			"s3":        func(c *config.Config) { c.S3.Endpoint, c.S3.Authority = "https://127.0.0.1:1", authority },
		} {
			c := nowhere(t)
			spoil(&c)
			for _, f := range Check(t.Context(), c, steady()) {
				if f.Server == name && !errors.Is(f.Err, mayfly.Invalid) {
					t.Errorf("%s with %s: %v", name, authority, f.Err)
				}
			}
		}
	}
}
