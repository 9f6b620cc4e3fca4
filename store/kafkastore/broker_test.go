//go:build servers

package kafkastore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/conn"
)

// Names of the variables with the addresses of the brokers, one without TLS and one
// with it (docs/servers.md): `go run ./deploy/servers up kafka`, and the same with
// --secure --prefix MAYFLY_SECURE. Tests with the build tag servers fail without them.
const (
	broker       = "MAYFLY_TEST_KAFKA"
	secureBroker = "MAYFLY_SECURE_KAFKA"
)

func wall() mayfly.Instant { return mayfly.InstantOf(time.Now()) }

func brokerOptions(t testing.TB) Options { return brokerAt(t, broker) }

// brokerAt returns options for the broker in the named variable, with a topic prefix
// that no other test uses.
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

// optionsFor returns options for the broker of an environment. The timeout is long
// because the machine may be busy.
func optionsFor(name string, env func(string) string) (Options, error) {
	o := Options{
		Brokers: strings.Split(env(name), ","), Prefix: freshName("test") + ".", Partitions: 4, ReplicationFactor: 1, Now: wall,
		Timeout: 30 * time.Second, SessionTimeout: 6 * time.Second,
	}
	if file := env(name + "_CA"); file != "" {
		ca, err := os.ReadFile(file)
		if err != nil {
			return Options{}, err
		}
		o.TLS = conn.TLS{Enabled: true, CA: ca}
		o.Credentials = conn.Credentials{User: env(name + "_USER"), Password: mayfly.Secret(env(name + "_PASSWORD"))}
	}
	return o, nil
}

// open opens a store. A broker on a busy machine may not answer in time, or be fenced for
// a while because its controller did not hear from it: then it is tried again.
func open(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), o)
	for end := time.Now().Add(2 * time.Minute); errors.Is(err, mayfly.Unavailable) && time.Now().Before(end); s, err = Open(t.Context(), o) {
		t.Log("not opened:", err)
		time.Sleep(pollInterval)
	}
	return opened(t, s, err)
}

// next is Next, again while the broker is not ready.
func next(t testing.TB, r *reader, limit int) ([]store.Record, error) {
	t.Helper()
	records, err := r.Next(t.Context(), limit)
	for end := time.Now().Add(2 * time.Minute); errors.Is(err, mayfly.Unavailable) && time.Now().Before(end); records, err = r.Next(t.Context(), limit) {
		t.Log("not read:", err)
		time.Sleep(pollInterval)
	}
	return records, err
}

func opened(t testing.TB, s *Store, err error) *Store {
	t.Helper()
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

// life returns the first n events of a new item, all of the stream ends.
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

// ownBroker is a broker that belongs to one test, which may kill it.
type ownBroker struct {
	t       *testing.T
	program string
	state   string
	env     map[string]string
	frozen  int // its process ID, from freeze to thaw
}

func startBroker(t *testing.T, args ...string) *ownBroker {
	t.Helper()
	// scripts/test-cluster stops the servers of this folder if this process is killed.
	state, err := os.MkdirTemp(os.Getenv("MAYFLY_TEST_STATES"), "*.state")
	if err != nil {
		t.Fatal(err)
	}
	b := &ownBroker{t: t, program: filepath.Join(t.TempDir(), "servers"), state: state, env: map[string]string{}}
	b.run("go", "build", "-o", b.program, "github.com/mayflyhq/mayfly/deploy/servers")
	t.Cleanup(func() {
		b.servers(context.Background(), "down")
		if err := os.RemoveAll(state); err != nil {
			t.Error(err)
		}
	})
	out := b.servers(t.Context(), append([]string{"up", "kafka"}, args...)...)
	for _, found := range regexp.MustCompile(`export (\w+)='([^']*)'`).FindAllStringSubmatch(out, -1) {
		b.env[found[1]] = found[2]
	}
	return b
}

func (b *ownBroker) options() Options {
	b.t.Helper()
	o, err := optionsFor(broker, func(name string) string { return b.env[name] })
	if err != nil {
		b.t.Fatal(err)
	}
	return o
}

func (b *ownBroker) run(name string, args ...string) string {
	b.t.Helper()
	return b.runWith(b.t.Context(), name, args...)
}

func (b *ownBroker) runWith(ctx context.Context, name string, args ...string) string {
	b.t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		b.t.Fatalf("%s %v: %v\n%s", name, args, err, errs.String())
	}
	return out.String()
}

func (b *ownBroker) servers(ctx context.Context, args ...string) string {
	b.t.Helper()
	return b.runWith(ctx, b.program, append(args, "--state", b.state)...)
}

// kill ends the broker with SIGKILL and keeps its data.
func (b *ownBroker) kill() { b.servers(b.t.Context(), "kill", "kafka") }

// start restarts the broker and waits until it answers.
func (b *ownBroker) start() { b.servers(b.t.Context(), "start", "kafka") }

// freeze suspends the broker: its connections stay open, but it does not answer. It
// returns when all threads are suspended, which takes a moment on a busy machine.
func (b *ownBroker) freeze() {
	b.t.Helper()
	b.frozen = b.process() // asked before: a frozen broker does not answer
	b.signal(syscall.SIGSTOP)
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", b.frozen))
		if err != nil {
			b.t.Fatal(err)
		}
		if !slices.ContainsFunc(tasks, runs) {
			return // or this system has no /proc
		}
	}
	b.t.Fatal("the broker is not suspended")
}

// runs reports whether a thread is not stopped, by its stat file.
func runs(file string) bool {
	text, err := os.ReadFile(file)
	_, state, found := strings.Cut(string(text), ") ")
	return err == nil && found && !strings.HasPrefix(state, "T")
}

func (b *ownBroker) thaw() { b.signal(syscall.SIGCONT) }

func (b *ownBroker) signal(sig syscall.Signal) {
	b.t.Helper()
	if err := syscall.Kill(b.frozen, sig); err != nil {
		b.t.Fatal(err)
	}
}

func (b *ownBroker) process() int {
	b.t.Helper()
	status := b.servers(b.t.Context(), "status")
	found := regexp.MustCompile(`(?m)^kafka +1 +up +(\d+) `).FindStringSubmatch(status)
	if found == nil {
		b.t.Fatalf("no process in %s", status)
	}
	n, err := strconv.Atoi(found[1])
	if err != nil {
		b.t.Fatal(err)
	}
	return n
}
