//go:build servers

package redisstore

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/conn"
	"github.com/mayflyhq/mayfly/store/storetest"
)

// The real servers are those of docs/servers.md, without TLS and with it: `go run
// ./deploy/servers up redis redis-cluster`, and with --secure --prefix MAYFLY_SECURE.
// Tests of this file fail without them.
const (
	oneServer     = "MAYFLY_TEST_REDIS"
	redisCluster  = "MAYFLY_TEST_REDIS_CLUSTER"
	secureServer  = "MAYFLY_SECURE_REDIS"
	secureCluster = "MAYFLY_SECURE_REDIS_CLUSTER"
)

// at returns options for the servers that an environment variable names. The timeout
// is long because the machine may be busy and no test here depends on it.
func at(t testing.TB, name string) Options {
	t.Helper()
	addresses := os.Getenv(name)
	if addresses == "" {
		t.Fatalf("%s is not set: docs/servers.md says how to start the servers", name)
	}
	o := Options{
		Addresses: strings.Split(addresses, ","), Credentials: conn.Credentials{User: os.Getenv(name + "_USER"), Password: mayfly.Secret(os.Getenv(name + "_PASSWORD"))},
		Prefix: freshPrefix(), Timeout: 10 * time.Second, Logger: quiet(),
	}
	if ca := os.Getenv(name + "_CA"); ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			t.Fatal(err)
		}
		o.TLS = conn.TLS{Enabled: true, CA: pem}
	}
	return o
}

func TestRedisKeepsTheContracts(t *testing.T) {
	for driver, name := range map[string]string{"redisstore": oneServer, "redisstore on a cluster": redisCluster} {
		openSet := func(t *testing.T) store.Set {
			s := open(t, at(t, name))
			return store.Set{Limits: s.Limits(), Signals: s.Signals()}
		}
		t.Run(driver, func(t *testing.T) {
			storetest.Limits(t, driver, openSet)
			storetest.Signals(t, driver, openSet)
		})
	}
}

func TestAPublicationIsSentAlthoughItsCallerGaveUp(t *testing.T) {
	o := at(t, oneServer)
	a, b := open(t, o).Signals(), open(t, o).Signals()
	received := make(chan store.Signal, 10)
	sub, err := b.Subscribe(t.Context(), func(s store.Signal) { received <- s })
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	until(t, "the subscriber holds its lease", func() bool { _, held := sub.Lease(); return held })
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	signal := freshSignal()
	if err := a.Publish(gone, signal); err != nil {
		wantKind(t, mayfly.Unavailable, err)
	}
	if got := <-received; got != signal {
		t.Errorf("received %+v", got)
	}
	if failed := a.failedPublishes.Load(); failed != 0 {
		t.Errorf("%d publications failed: a cancelled request must not end the leases of all nodes", failed)
	}
}
