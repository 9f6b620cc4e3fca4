package main

import (
	"errors"
	"reflect"
	"testing"
)

func TestFlagsAndNamesComeInAnyOrder(t *testing.T) {
	for _, args := range [][]string{
		{"up", "cassandra", "--nodes", "3", "s3", "--cluster"},
		{"up", "--cluster", "--nodes=3", "cassandra", "s3"},
	} {
		o, err := parse(args)
		if err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		want := options{verb: "up", servers: []string{"cassandra", "s3", "redis-cluster"}, node: 1, nodes: 3, heap: "256m", prefix: "MAYFLY_TEST"}
		if !reflect.DeepEqual(o, want) {
			t.Errorf("%v is read as %+v", args, o)
		}
	}
}

func TestUpWithoutNamesStartsTheDefaultServers(t *testing.T) {
	o, err := parse([]string{"up"})
	if err != nil || !reflect.DeepEqual(o.servers, defaultServers()) {
		t.Fatalf("%v, %v", o.servers, err)
	}
	if o, err = parse([]string{"down"}); err != nil || len(o.servers) != 0 {
		t.Fatalf("down without names has the servers %v, want none, which means all; %v", o.servers, err)
	}
}

func TestKillTakesAServerAndANode(t *testing.T) {
	o, err := parse([]string{"kill", "cassandra", "2"})
	if err != nil || o.servers[0] != "cassandra" || o.node != 2 {
		t.Fatalf("%+v, %v", o, err)
	}
}

func TestInvalidCommandLinesAreRefused(t *testing.T) {
	for _, args := range [][]string{
		{"fly"},
		{"up", "mongo"},
		{"up", "3"},
		{"up", "--nodes", "0"},
		{"up", "--nodes", "10"},
		{"up", "--heap", "lots"},
		{"up", "--heap", "256m -XX:OnError=true"},
		{"up", "--wings"},
		{"env", "--prefix", "a b"},
		{"kill"},
		{"kill", "2"},
		{"kill", "kafka", "redis"},
		{"status", "kafka"},
	} {
		if _, err := parse(args); err == nil || errors.Is(err, errHelp) {
			t.Errorf("%v is accepted: %v", args, err)
		}
	}
}
