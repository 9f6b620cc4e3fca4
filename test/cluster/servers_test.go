//go:build servers

// What the tests of this folder share:
//
//   - servers_test.go: the real servers, started once for all tests by deploy/servers; killed, frozen and brought back.
//     MAYFLY_TEST_STATE names the state folder of servers that run already; else the tests start their own.
//   - cluster_test.go: newCluster(t) makes a cluster of one test on them (its own keyspace, topics, keys and prefixes),
//     with short windows; its method start("a") starts a real mayfly process of it, open opens its store in this process.
//   - users_test.go: person(node, "ana") is a client of one node that tries each request once.
//   - record_test.go: the record holds every acknowledgement and judges every later answer.
//   - load_test.go: users who publish and read all the while.
//   - audit_test.go: at the end, rows, media in both tiers and events are compared with the record; seven counts.
package cluster

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly/test/pace"
)

// serverGroup is a group of servers that run.
type serverGroup struct {
	program, state string
	own            bool // started by this process
	alone          bool // one test has them, and what it kills may stay away
	env            map[string]string
}

// TestMain takes away what the tests have built and started, or is a consumer
// that a test kills.
func TestMain(m *testing.M) {
	if errand := os.Getenv(mortalConsumer); errand != "" {
		consume(errand)
		os.Exit(0)
	}
	code := m.Run()
	if workshop.folder != "" {
		for _, s := range workshop.groups {
			if err := s.down(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				code = max(code, 1)
			}
		}
		if err := os.RemoveAll(workshop.folder); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// workshop is what all tests share.
var workshop struct {
	sync.Mutex
	folder string
	groups []*serverGroup
}

// bench is the folder of what is built, and of the servers' state.
func bench() (string, error) {
	workshop.Lock()
	defer workshop.Unlock()
	if workshop.folder != "" {
		return workshop.folder, nil
	}
	var err error
	workshop.folder, err = os.MkdirTemp("", "mayfly-cluster-")
	return workshop.folder, err
}

// built builds a program of this module, once for all tests.
func built(name string) (string, error) {
	folder, err := bench()
	if err != nil {
		return "", err
	}
	path := filepath.Join(folder, filepath.Base(name))
	out, err := exec.Command("go", "build", "-buildvcs=false", "-o", path, "github.com/mayflyhq/mayfly/"+name).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build %s: %w\n%s", name, err, out)
	}
	return path, nil
}

var (
	binary      = sync.OnceValues(func() (string, error) { return built("cmd/mayfly") })
	serversTool = sync.OnceValues(func() (string, error) { return built("deploy/servers") })
	mainServers = sync.OnceValues(func() (*serverGroup, error) {
		return openServers("s3", "redis", "kafka", "cassandra", "--heap", "512m")
	})
)

// servers are the ones that all tests share: one of each, and one node of Cassandra.
func servers(t testing.TB) *serverGroup {
	t.Helper()
	s, err := mainServers()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func openServers(what ...string) (*serverGroup, error) {
	tool, err := serversTool()
	if err != nil {
		return nil, err
	}
	if state := os.Getenv("MAYFLY_TEST_STATE"); state != "" {
		s := &serverGroup{program: tool, state: state}
		return s, s.readEnv()
	}
	return startServers(tool, what...)
}

// startServers starts servers for this process alone.
func startServers(tool string, what ...string) (*serverGroup, error) {
	folder, err := bench()
	if err != nil {
		return nil, err
	}
	if others := os.Getenv("MAYFLY_TEST_STATES"); others != "" {
		folder = others // the process that started this one stops them if it dies
	}
	s := &serverGroup{program: tool, own: true, state: filepath.Join(folder, fmt.Sprintf("own-%08x.state", rand.Uint32()))}
	if _, err := s.run(append([]string{"up"}, what...)...); err != nil {
		return nil, err
	}
	workshop.Lock()
	workshop.groups = append(workshop.groups, s)
	workshop.Unlock()
	return s, s.readEnv()
}

// beside starts servers that the test has for itself, to kill; the rest is shared.
func (s *serverGroup) beside(t testing.TB, what ...string) *serverGroup {
	t.Helper()
	own, err := startServers(s.program, what...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := own.down(); err != nil {
			t.Error(err)
		}
		own.own = false // they are down
	})
	own.alone = true
	for name, value := range s.env {
		if own.env[name] == "" {
			own.env[name] = value
		}
	}
	return own
}

func (s *serverGroup) readEnv() error {
	out, err := s.run("env")
	if err != nil {
		return err
	}
	s.env = map[string]string{}
	for _, found := range regexp.MustCompile(`export MAYFLY_TEST_(\w+)='([^']*)'`).FindAllStringSubmatch(out, -1) {
		s.env[found[1]] = found[2]
	}
	return nil
}

func (s *serverGroup) down() error {
	if !s.own {
		return nil
	}
	_, err := s.run("down")
	return err
}

// run runs a verb of deploy/servers.
func (s *serverGroup) run(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, s.program, append(args, "--state", s.state)...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("servers %s: %w\n%s", strings.Join(args, " "), err, errs.String())
	}
	return out.String(), nil
}

// kill ends a server with SIGKILL; its data stays. One that others use is back when
// the test ends.
func (s *serverGroup) kill(t testing.TB, server string, node int) {
	t.Helper()
	if _, err := s.run("kill", server, strconv.Itoa(node)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !s.alone && s.pid(server, node) == 0 {
			s.start(t, server, node)
		}
	})
}

// start brings it back and waits until it answers.
func (s *serverGroup) start(t testing.TB, server string, node int) {
	t.Helper()
	if _, err := s.run("start", server, strconv.Itoa(node)); err != nil {
		t.Error(err)
	}
}

// freeze stops a server in the middle of what it does: connections stand, nothing
// answers. It goes on by thaw, at the latest when the test ends.
func (s *serverGroup) freeze(t testing.TB, server string, node int) (thaw func()) {
	t.Helper()
	pid := s.pid(server, node)
	if pid == 0 {
		t.Fatalf("%s %d does not run", server, node)
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	thaw = sync.OnceFunc(func() {
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(thaw)
	return thaw
}

// pid is the process of a server; 0 if it does not run.
func (s *serverGroup) pid(server string, node int) int {
	status, err := s.run("status")
	if err != nil {
		return 0
	}
	found := regexp.MustCompile(fmt.Sprintf(`(?m)^%s +%d +up +(\d+) `, regexp.QuoteMeta(server), node)).FindStringSubmatch(status)
	if found == nil {
		return 0
	}
	pid, err := strconv.Atoi(found[1])
	if err != nil {
		return 0
	}
	return pid
}

// pick is one number for the short form and another for the long one.
func pick[T any](short, longer T) T {
	if pace.Long() {
		return longer
	}
	return short
}

// seeded is a source of randomness whose seed is printed; MAYFLY_SEED takes it back.
func seeded(t testing.TB) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	if text := os.Getenv("MAYFLY_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("MAYFLY_SEED: %v", err)
		}
	}
	t.Logf("MAYFLY_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 6))
}
