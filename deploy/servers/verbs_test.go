package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDownStopsTheServersOfItsFolderOnly(t *testing.T) {
	one, _ := testRunner(t, "down")
	two, _ := testRunner(t, "down")
	mine, theirs := startPing(t, one), startPing(t, two)
	if err := one.down(t.Context()); err != nil {
		t.Fatal(err)
	}
	if mine.running() {
		t.Error("down leaves it running")
	}
	if !theirs.running() {
		t.Error("down stopped what another folder started")
	}
	if _, err := os.Stat(mine.Folder); !os.IsNotExist(err) {
		t.Errorf("the data is left: %v", err)
	}
}

func TestAnInterruptedDownStillStopsTheServers(t *testing.T) {
	r, _ := testRunner(t, "down")
	mine := startPing(t, r)
	interrupted, stop := context.WithCancel(t.Context())
	stop()
	if err := r.down(interrupted); err != nil || mine.running() {
		t.Errorf("running: %t, %v", mine.running(), err)
	}
}

func TestDownLeavesAProcessWithAReusedID(t *testing.T) {
	r, _ := testRunner(t, "down")
	n := startPing(t, r)
	st, err := r.load()
	if err != nil {
		t.Fatal(err)
	}
	st.Servers[0].Nodes[0].Process.Started = "1 ticks after boot another"
	if err := r.save(st); err != nil {
		t.Fatal(err)
	}
	if err := r.down(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !n.running() {
		t.Fatal("down ended a process that is not the one it started")
	}
}

func TestDownOfOneServerLeavesTheOthers(t *testing.T) {
	r, _ := testRunner(t, "down", "kafka")
	n := startPing(t, r)
	if err := r.down(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !n.running() {
		t.Fatal("down of another server stopped it")
	}
}

func TestDownWithKeepLeavesTheData(t *testing.T) {
	r, _ := testRunner(t, "down", "--keep")
	n := startPing(t, r)
	if err := r.down(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(n.Folder); err != nil || n.running() {
		t.Fatalf("kept: %v, running: %v", err, n.running())
	}
}

func TestAKilledNodeRestartsWithItsPortsAndData(t *testing.T) {
	r, _ := testRunner(t, "status")
	n := startPing(t, r)
	mark := filepath.Join(n.Folder, "mark")
	if err := os.WriteFile(mark, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	kill, _ := reopen(t, r.folder, "kill", "redis")
	if err := kill.kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n.running() {
		t.Fatal("kill leaves it running")
	}
	if err := kill.kill(t.Context()); err == nil {
		t.Error("a dead node is killed again")
	}
	start, _ := reopen(t, r.folder, "start", "redis", "1")
	if err := start.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := start.start(t.Context()); err == nil {
		t.Error("a running node is started again")
	}
	st, err := r.load()
	if err != nil {
		t.Fatal(err)
	}
	back := st.Servers[0].Nodes[0]
	if !back.running() || back.at("redis") != n.at("redis") || back.Process.Pid == n.Process.Pid {
		t.Errorf("it restarted as %+v", back)
	}
	if _, err := os.Stat(mark); err != nil {
		t.Error(err)
	}
	if err := start.down(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestTheErrorOfANodeThatEndsContainsItsLog(t *testing.T) {
	r, _ := testRunner(t, "status")
	n := startPing(t, r)
	s := server{Name: "redis", Nodes: []node{{
		Number: 1, Address: "127.0.0.1", Ports: n.Ports, Folder: t.TempDir(),
		Command: command{Args: []string{os.Args[0]}, Env: []string{"ANSWER_PING_AT=" + n.at("redis")}}, // a port in use
	}}}
	st := &state{}
	if err := r.startNode(st, &s, &s.Nodes[0]); err != nil {
		t.Fatal(err)
	}
	s.Nodes[0].Ports = map[string]int{"redis": 1} // no server listens there
	err := r.await(t.Context(), s, s.Nodes)
	if err == nil || !strings.Contains(err.Error(), "ended instead") || !strings.Contains(err.Error(), "cannot listen") {
		t.Fatalf("%v", err)
	}
}

func TestEnvPrintsRunningServersOnly(t *testing.T) {
	r, out := testRunner(t, "env", "--prefix", "OTHER")
	if err := r.env(); err == nil {
		t.Fatal("env without servers succeeds")
	}
	n := startPing(t, r)
	if err := r.env(); err != nil {
		t.Fatal(err)
	}
	if want := "export OTHER_REDIS='" + n.at("redis") + "'\n"; out.String() != want {
		t.Fatalf("%q, not %q", out, want)
	}
	if err := n.Process.kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.env(); err == nil {
		t.Fatal("env with a dead server succeeds")
	}
}

func TestEnvOfASecureServerContainsTheCredentials(t *testing.T) {
	s := server{Secure: true, Secrets: secrets{User: "mayfly", Password: "p", Authority: "/x/authority.pem"}, Nodes: []node{{Address: "127.0.0.1"}}}
	for name, wants := range map[string][]string{
		"cassandra":     {"CASSANDRA", "CASSANDRA_USER", "CASSANDRA_PASSWORD", "CASSANDRA_CA"},
		"kafka":         {"KAFKA", "KAFKA_USER", "KAFKA_PASSWORD", "KAFKA_CA"},
		"redis":         {"REDIS", "REDIS_USER", "REDIS_PASSWORD", "REDIS_CA"},
		"redis-cluster": {"REDIS_CLUSTER", "REDIS_CLUSTER_USER", "REDIS_CLUSTER_PASSWORD", "REDIS_CLUSTER_CA"},
		"s3":            {"S3", "S3_REGION", "S3_BUCKET", "S3_KEY", "S3_SECRET", "S3_CA"},
	} {
		s.Name = name
		rec, _ := recipeOf(name)
		var names []string
		for _, v := range rec.env(s) {
			names = append(names, v.name)
		}
		if strings.Join(names, " ") != strings.Join(wants, " ") {
			t.Errorf("%s: %v, not %v", name, names, wants)
		}
	}
}

func TestStatusShowsRunningAndDeadNodes(t *testing.T) {
	r, out := testRunner(t, "status")
	if err := r.status(); err != nil || !strings.Contains(out.String(), "nothing was started") {
		t.Fatalf("%q, %v", out, err)
	}
	n := startPing(t, r)
	for _, want := range []string{" up ", " died "} {
		out.Reset()
		if err := r.status(); err != nil || !strings.Contains(out.String(), want) || !strings.Contains(out.String(), n.at("redis")) {
			t.Fatalf("%q lacks %q, %v", out, want, err)
		}
		if err := n.Process.kill(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAFolderWithOtherContentsIsRefused(t *testing.T) {
	r, _ := testRunner(t, "down")
	if err := os.MkdirAll(filepath.Join(r.folder, "cassandra"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := r.down(t.Context()); err == nil || !strings.Contains(err.Error(), "not a state folder") {
		t.Fatalf("%v", err)
	}
	if entries, err := os.ReadDir(r.folder); err != nil || len(entries) != 1 {
		t.Fatalf("%v, %v", entries, err)
	}
}

func TestAServerThatRunsWithOtherOptionsIsRefused(t *testing.T) {
	r, _ := testRunner(t, "up", "redis")
	startPing(t, r)
	st, err := r.load()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.skipRunning(st); err != nil || len(r.servers) != 0 {
		t.Fatalf("a running server is started again: %v, %v", r.servers, err)
	}
	secure, _ := reopen(t, r.folder, "up", "redis", "--secure")
	if err := secure.skipRunning(st); err == nil {
		t.Fatal("a server without TLS is accepted as a secure one")
	}
}

func TestOnlyTheOwnerMayReadTheState(t *testing.T) {
	r, _ := testRunner(t, "status")
	startPing(t, r)
	for _, name := range []string{"state.json", "redis/1/log.txt"} {
		info, err := os.Stat(filepath.Join(r.folder, name))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if err := os.WriteFile(filepath.Join(r.folder, "state.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.load(); err == nil {
		t.Error("an incomplete state file is accepted")
	}
}
