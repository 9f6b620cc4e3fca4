package main

import (
	"strings"
	"testing"
)

func TestNeedNamesThePackagesOfMissingTools(t *testing.T) {
	r, out := testRunner(t, "need", "kafka", "redis", "s3")
	t.Setenv("PATH", t.TempDir())
	if err := r.need(t.Context()); err == nil {
		t.Fatal("nothing is missing on an empty machine")
	}
	for _, want := range []string{
		"mvn (Debian package maven)\n",
		"redis misses redis-server (Debian package redis-server)\n",
		"s3 misses go (Debian package golang-go)\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q lacks %q", out, want)
		}
	}
}

func TestUpWithoutInstallInstallsNothing(t *testing.T) {
	r, out := testRunner(t, "up", "redis")
	t.Setenv("PATH", t.TempDir())
	if err := r.up(t.Context()); err == nil || !strings.Contains(err.Error(), "missing on this machine: redis-server") {
		t.Fatalf("%v", err)
	}
	if out.Len() > 0 {
		t.Errorf("up printed to standard output: %q", out)
	}
}

func TestAToolIsCheckedByRunningIt(t *testing.T) {
	if err := runs(t.Context(), "sh", "-c", "echo broken; exit 3"); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("a failing tool is accepted, or the error has no reason: %v", err)
	}
	if err := atLeast(t.Context(), 7, "echo", "Redis server v=6.2.1"); err == nil {
		t.Error("an old version is accepted")
	}
	if err := atLeast(t.Context(), 7, "echo", "Redis server v=7.0.15"); err != nil {
		t.Error(err)
	}
}
