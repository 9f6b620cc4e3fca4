package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDownStopsWhatItsFolderStartedAndNothingElse(t *testing.T) {
	one, _ := testHouse(t, "down")
	two, _ := testHouse(t, "down")
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

func TestDownEndsWhatItBeganAlsoWhenItIsInterrupted(t *testing.T) {
	h, _ := testHouse(t, "down")
	mine := startPing(t, h)
	interrupted, stop := context.WithCancel(t.Context())
	stop()
	if err := h.down(interrupted); err != nil || mine.running() {
		t.Errorf("running: %t, %v", mine.running(), err)
	}
}

func TestDownLeavesAProcessThatOnlyHasTheNumber(t *testing.T) {
	h, _ := testHouse(t, "down")
	n := startPing(t, h)
	st, err := h.load()
	if err != nil {
		t.Fatal(err)
	}
	st.Servers[0].Nodes[0].Process.Born = "1 ticks after boot another"
	if err := h.save(st); err != nil {
		t.Fatal(err)
	}
	if err := h.down(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !n.running() {
		t.Fatal("down ended a process that is not the one it started")
	}
}

func TestDownOfOneServerLeavesTheOthers(t *testing.T) {
	h, _ := testHouse(t, "down", "kafka")
	n := startPing(t, h)
	if err := h.down(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !n.running() {
		t.Fatal("down of another server stopped it")
	}
}

func TestDownWithKeepLeavesTheData(t *testing.T) {
	h, _ := testHouse(t, "down", "--keep")
	n := startPing(t, h)
	if err := h.down(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(n.Folder); err != nil || n.running() {
		t.Fatalf("kept: %v, running: %v", err, n.running())
	}
}

func TestAKilledNodeComesBackOnItsPortsAndData(t *testing.T) {
	h, _ := testHouse(t, "status")
	n := startPing(t, h)
	mark := filepath.Join(n.Folder, "mark")
	if err := os.WriteFile(mark, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	kill, _ := again(t, h.folder, "kill", "redis")
	if err := kill.kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n.running() {
		t.Fatal("kill leaves it running")
	}
	if err := kill.kill(t.Context()); err == nil {
		t.Error("what is dead is killed again")
	}
	start, _ := again(t, h.folder, "start", "redis", "1")
	if err := start.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := start.start(t.Context()); err == nil {
		t.Error("what runs is started again")
	}
	st, err := h.load()
	if err != nil {
		t.Fatal(err)
	}
	back := st.Servers[0].Nodes[0]
	if !back.running() || back.at("redis") != n.at("redis") || back.Process.Pid == n.Process.Pid {
		t.Errorf("it came back as %+v", back)
	}
	if _, err := os.Stat(mark); err != nil {
		t.Error(err)
	}
	if err := start.down(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestANodeThatDiesInsteadOfAnsweringShowsItsLog(t *testing.T) {
	h, _ := testHouse(t, "status")
	n := startPing(t, h)
	s := server{Name: "redis", Nodes: []node{{
		Number: 1, Address: "127.0.0.1", Ports: n.Ports, Folder: t.TempDir(),
		Command: command{Args: []string{os.Args[0]}, Env: []string{"ANSWER_PING_AT=" + n.at("redis")}}, // which is taken
	}}}
	st := &state{}
	if err := h.begin(st, &s, &s.Nodes[0]); err != nil {
		t.Fatal(err)
	}
	s.Nodes[0].Ports = map[string]int{"redis": 1} // nobody answers there
	err := h.await(t.Context(), s, s.Nodes)
	if err == nil || !strings.Contains(err.Error(), "ended instead") || !strings.Contains(err.Error(), "cannot listen") {
		t.Fatalf("%v", err)
	}
}

func TestTheEnvironmentIsOfWhatRuns(t *testing.T) {
	h, out := testHouse(t, "env", "--prefix", "OTHER")
	if err := h.env(); err == nil {
		t.Fatal("an environment of nothing")
	}
	n := startPing(t, h)
	if err := h.env(); err != nil {
		t.Fatal(err)
	}
	if want := "export OTHER_REDIS='" + n.at("redis") + "'\n"; out.String() != want {
		t.Fatalf("%q, not %q", out, want)
	}
	if err := n.Process.kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := h.env(); err == nil {
		t.Fatal("an environment of what has died")
	}
}

func TestTheEnvironmentOfASecureServerHasWhatAClientNeeds(t *testing.T) {
	s := server{Secure: true, Secrets: secrets{User: "mayfly", Password: "p", Authority: "/x/authority.pem"}, Nodes: []node{{Address: "127.0.0.1"}}}
	for name, wants := range map[string][]string{
		"cassandra":     {"CASSANDRA", "CASSANDRA_USER", "CASSANDRA_PASSWORD", "CASSANDRA_CA"},
		"kafka":         {"KAFKA", "KAFKA_USER", "KAFKA_PASSWORD", "KAFKA_CA"},
		"redis":         {"REDIS", "REDIS_USER", "REDIS_PASSWORD", "REDIS_CA"},
		"redis-cluster": {"REDIS_CLUSTER", "REDIS_CLUSTER_USER", "REDIS_CLUSTER_PASSWORD", "REDIS_CLUSTER_CA"},
		"s3":            {"S3", "S3_REGION", "S3_BUCKET", "S3_KEY", "S3_SECRET", "S3_CA"},
	} {
		s.Name = name
		r, _ := recipeOf(name)
		var names []string
		for _, v := range r.env(s) {
			names = append(names, v.name)
		}
		if strings.Join(names, " ") != strings.Join(wants, " ") {
			t.Errorf("%s: %v, not %v", name, names, wants)
		}
	}
}

func TestStatusTellsWhatRunsAndWhatDied(t *testing.T) {
	h, out := testHouse(t, "status")
	if err := h.status(); err != nil || !strings.Contains(out.String(), "nothing was started") {
		t.Fatalf("%q, %v", out, err)
	}
	n := startPing(t, h)
	for _, want := range []string{" up ", " died "} {
		out.Reset()
		if err := h.status(); err != nil || !strings.Contains(out.String(), want) || !strings.Contains(out.String(), n.at("redis")) {
			t.Fatalf("%q lacks %q, %v", out, want, err)
		}
		if err := n.Process.kill(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAFolderOfOtherThingsIsNoStateFolder(t *testing.T) {
	h, _ := testHouse(t, "down")
	if err := os.MkdirAll(filepath.Join(h.folder, "cassandra"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := h.down(t.Context()); err == nil || !strings.Contains(err.Error(), "not a state folder") {
		t.Fatalf("%v", err)
	}
	if entries, err := os.ReadDir(h.folder); err != nil || len(entries) != 1 {
		t.Fatalf("%v, %v", entries, err)
	}
}

func TestWhatRunsWithOtherSettingsIsNotTakenForTheOrdered(t *testing.T) {
	h, _ := testHouse(t, "up", "redis")
	startPing(t, h)
	st, err := h.load()
	if err != nil {
		t.Fatal(err)
	}
	if err := h.onlyNew(st); err != nil || len(h.servers) != 0 {
		t.Fatalf("what runs is started again: %v, %v", h.servers, err)
	}
	secure, _ := again(t, h.folder, "up", "redis", "--secure")
	if err := secure.onlyNew(st); err == nil {
		t.Fatal("an open server passes for a secure one")
	}
}

func TestNobodyElseReadsTheState(t *testing.T) {
	h, _ := testHouse(t, "status")
	startPing(t, h)
	for _, name := range []string{"state.json", "redis/1/log.txt"} {
		info, err := os.Stat(filepath.Join(h.folder, name))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if err := os.WriteFile(filepath.Join(h.folder, "state.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := h.load(); err == nil {
		t.Error("half a state passes for one")
	}
}
