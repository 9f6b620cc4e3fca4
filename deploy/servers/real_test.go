//go:build servers

package main

import (
	"context"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

// TestRealServersStartRestartAfterAKillAndStop downloads what is not in the cache
// and takes a minute or two: go test -tags servers -run Real ./deploy/servers
func TestRealServersStartRestartAfterAKillAndStop(t *testing.T) {
	folder := t.TempDir() + "/state"
	servers := func(out io.Writer, args ...string) {
		t.Helper()
		// Not the test's context, which ends before its clean-up.
		if err := run(context.Background(), append(args, "--state", folder), out, t.Output()); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { servers(io.Discard, "down") })

	var env strings.Builder
	servers(&env, "up", "--nodes", "3", "--cluster")
	for _, name := range []string{"CASSANDRA", "KAFKA", "REDIS", "REDIS_CLUSTER", "S3", "S3_REGION", "S3_BUCKET", "S3_KEY", "S3_SECRET"} {
		if !regexp.MustCompile(`(?m)^export MAYFLY_TEST_` + name + `='[^']+'$`).MatchString(env.String()) {
			t.Errorf("no %s in\n%s", name, env.String())
		}
	}
	r, _ := reopen(t, folder, "status")
	started := pids(t, r)
	if len(started) != 9 {
		t.Errorf("%d processes run, not 3 + 1 + 1 + 3 + 1", len(started))
	}
	for _, one := range [][]string{{"cassandra", "2"}, {"kafka", "1"}, {"redis", "1"}, {"redis-cluster", "3"}, {"s3", "1"}} {
		servers(io.Discard, append([]string{"kill"}, one...)...)
		if now := pids(t, r); len(now) != len(started)-1 {
			t.Errorf("after the kill of %v %d processes run", one, len(now))
		}
		servers(io.Discard, append([]string{"start"}, one...)...)
	}
	started = append(started, pids(t, r)...)
	servers(io.Discard, "down", "--keep")
	servers(io.Discard, "up", "--nodes", "3", "--cluster", "--keep")
	started = append(started, pids(t, r)...)
	servers(io.Discard, "down")
	for _, p := range started {
		if p.alive() {
			t.Errorf("process %d is left", p.Pid)
		}
	}
	left, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range left {
		if !slices.Contains([]string{"lock", "state.json"}, e.Name()) {
			t.Errorf("%s is left", e.Name())
		}
	}
}

// TestRealSecureServersRequireCredentials starts the servers with --secure.
func TestRealSecureServersRequireCredentials(t *testing.T) {
	folder := t.TempDir() + "/state"
	t.Cleanup(func() {
		if err := run(context.Background(), []string{"down", "--state", folder}, io.Discard, t.Output()); err != nil {
			t.Error(err)
		}
	})
	if err := run(t.Context(), []string{"up", "--secure", "--cluster", "--state", folder}, io.Discard, t.Output()); err != nil {
		t.Fatal(err)
	}
	r, _ := reopen(t, folder, "status")
	st, err := r.load()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range st.Servers {
		rec, _ := recipeOf(s.Name)
		whole := func(s server) error { return probe(t.Context(), rec, s, s.Nodes) }
		if err := whole(s); err != nil {
			t.Errorf("%s does not answer with credentials: %v", s.Name, err)
		}
		plain := s
		plain.Secure = false
		if err := whole(plain); err == nil {
			t.Errorf("%s answers without TLS", s.Name)
		}
		wrong := s
		wrong.Secrets.Password = "wrong"
		if s.Name == "cassandra" {
			as := gocql.PasswordAuthenticator{Username: wrong.Secrets.User, Password: "wrong"}
			if session, err := cqlSession(wrong, s.Nodes[0], as); err == nil {
				session.Close()
				t.Error("cassandra accepts a wrong password")
			}
		} else if err := whole(wrong); err == nil {
			t.Errorf("%s accepts a wrong password", s.Name)
		}
	}
}

func pids(t *testing.T, r *runner) []process {
	t.Helper()
	st, err := r.load()
	if err != nil {
		t.Fatal(err)
	}
	var all []process
	for _, s := range st.Servers {
		for _, n := range s.Nodes {
			if n.running() {
				all = append(all, *n.Process)
			}
		}
	}
	return all
}
