//go:build servers

package kafkastore

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store/conn"
)

// The real brokers are those of docs/servers.md, one without TLS and one with it:
// `go run ./deploy/servers up kafka`, and with --secure --prefix MAYFLY_SECURE. Without
// them a test of the files with this build tag fails.
const (
	broker       = "MAYFLY_TEST_KAFKA"
	secureBroker = "MAYFLY_SECURE_KAFKA"
)

func wall() mayfly.Instant { return mayfly.InstantOf(time.Now()) }

func brokerOptions(t testing.TB) Options { return brokerAt(t, broker) }

// brokerAt are the options for the broker that the environment names, with topics
// that no other test has.
func brokerAt(t testing.TB, name string) Options {
	t.Helper()
	if os.Getenv(name) == "" {
		t.Fatalf("%s is not set: docs/servers.md says how to start the broker", name)
	}
	o, err := optionsFor(name, os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	o.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))
	return o
}

// optionsFor are the options for the broker of an environment. Their patience is
// long: the machine may be busy, and few of the tests are about that.
func optionsFor(name string, env func(string) string) (Options, error) {
	o := Options{
		Brokers: strings.Split(env(name), ","), Prefix: freshName("test") + ".", Partitions: 4, Copies: 1, Now: wall,
		Patience: 30 * time.Second, Session: 6 * time.Second,
	}
	if file := env(name + "_CA"); file != "" {
		authority, err := os.ReadFile(file)
		if err != nil {
			return Options{}, err
		}
		o.TLS = conn.TLS{Enabled: true, CA: authority}
		o.Credentials = conn.Credentials{User: env(name + "_USER"), Password: mayfly.Secret(env(name + "_PASSWORD"))}
	}
	return o, nil
}

func open(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func join(t testing.TB, s *Store, group string) *reader {
	t.Helper()
	r, err := s.Reader(t.Context(), mayfly.Ends, group)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r.(*reader)
}

func freshName(what string) string { return fmt.Sprintf("%s-%016x", what, rand.Uint64()) }

// life is the first n events of an item of its own, all of the stream of ends.
func life(t testing.TB, n int) []mayfly.Event {
	t.Helper()
	lifetime, err := mayfly.ParseLifetime("24h")
	if err != nil {
		t.Fatal(err)
	}
	var owner mayfly.UserID
	for i := range owner {
		owner[i] = byte(rand.Uint32())
	}
	id, err := mayfly.NewID(wall(), lifetime, owner.Trace(), rand.Uint64())
	if err != nil {
		t.Fatal(err)
	}
	var events []mayfly.Event
	for i := range n {
		events = append(events, mayfly.Event{
			ID: id, Generation: mayfly.Generation(i + 2), Product: mayfly.Story, Verb: mayfly.WasExpired, At: wall(), Owner: owner,
		})
	}
	return events
}
