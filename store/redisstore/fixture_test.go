package redisstore

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// Two goroutines of the library outlive its Close for a while and then end: one
// closes, after 5 s, the connection to a server that left its cluster, the other
// spaces queries for the cluster topology a second apart.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"))
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// freshPrefix returns a random key prefix, since tests share servers.
func freshPrefix() string { return fmt.Sprintf("test-%016x", rand.Uint64()) }

func open(t testing.TB, o Options) *Store {
	t.Helper()
	if o.Logger == nil {
		o.Logger = quiet()
	}
	if o.Prefix == "" {
		o.Prefix = freshPrefix()
	}
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mustClose(t, s) })
	return s
}

func mustClose(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func freshSignal() store.Signal {
	s := store.Signal{Topic: store.RowChanged}
	for i := range s.ID {
		s.ID[i] = byte(rand.Uint32())
	}
	return s
}

func wantKind(t testing.TB, kind mayfly.Kind, err error) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("error is %v, want kind %s", err, kind)
	}
}

func hourly(n int) store.Rate { return store.Rate{Count: n, Per: time.Hour} }

const noon = mayfly.Instant(1_800_000_000_000)
