//go:build servers

package cli

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// secureCluster returns a configuration of the servers with TLS and credentials that
// scripts/test-cluster has started.
func secureCluster(t *testing.T) string {
	t.Helper()
	states := os.Getenv("MAYFLY_TEST_STATES")
	if states == "" {
		t.Fatal("MAYFLY_TEST_STATES is not set: run make test-cluster")
	}
	var text, errs bytes.Buffer
	c := exec.CommandContext(t.Context(), "go", "run", "../../deploy/servers", "config", "--state", filepath.Join(states, "MAYFLY_SECURE.state"))
	c.Stdout, c.Stderr = &text, &errs
	if err := c.Run(); err != nil {
		t.Fatalf("%v: %s", err, &errs)
	}
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	if err := os.WriteFile(file, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestConfigCheckConnectsToEveryServerOfACluster(t *testing.T) {
	file := secureCluster(t)
	check := []string{"config", "check", "--connect", file, "--set", "node=a", "--set", "cassandra.keyspace=tried", "--set", "kafka.prefix=tried-"}
	text := runVerb(t, exitOK, "cassandra  ok", check...)
	for _, server := range []string{"cassandra", "kafka", "redis", "s3"} {
		if !strings.Contains(text, server+strings.Repeat(" ", 11-len(server))+"ok") {
			t.Errorf("%s is not reported as ok:\n%s", server, text)
		}
	}
	for _, spoil := range []struct{ server, set string }{
		{"cassandra", "cassandra.password=canary"},
		{"cassandra", "cassandra.user=stranger"},
		{"kafka", "kafka.password=canary"},
		{"redis", "redis.password=canary"},
		{"s3", "s3.secret=canary"},
		{"s3", "s3.hot=nowhere-at-all/hot"},
		{"s3", "s3.cold_class=GLACIER"},
	} {
		var out, errs bytes.Buffer
		code := Run(append(check, "--set", spoil.set), &out, &errs)
		said := out.String() + errs.String()
		if code == exitOK || !strings.Contains(said, spoil.server+strings.Repeat(" ", 11-len(spoil.server))+"wrong") || strings.Count(said, " wrong ") != 1 || !strings.Contains(said, "→") {
			t.Errorf("%s: exit code %d:\n%s", spoil.set, code, said)
		}
		if strings.Contains(said, "canary") {
			t.Errorf("%s: the secret is printed:\n%s", spoil.set, said)
		}
	}
}
