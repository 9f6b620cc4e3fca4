package main

import (
	"net"
	"runtime"
	"slices"
	"strconv"
	"testing"
)

func TestNoPortIsAllocatedTwice(t *testing.T) {
	folder := t.TempDir()
	one, two := &ports{folder: folder}, &ports{folder: folder}
	defer one.close()
	defer two.close()
	var all []int
	for range 100 {
		for _, p := range []*ports{one, two} {
			port, err := p.take("127.0.0.1")
			if err != nil {
				t.Fatal(err)
			}
			if port < firstPort || port > lastPort {
				t.Fatalf("port %d may be used by outgoing connections", port)
			}
			if slices.Contains(all, port) {
				t.Fatalf("port %d is allocated twice", port)
			}
			all = append(all, port)
		}
	}
}

func TestAPortInUseIsNotFree(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	if err := free(port, []string{"127.0.0.1"}); err == nil {
		t.Fatalf("port %d is in use and reported as free", port)
	}
}

func TestRingNodesShareTheClientPortOnDifferentAddresses(t *testing.T) {
	p := &ports{folder: t.TempDir()}
	defer p.close()
	nodes, err := cassandra{}.allocate(options{nodes: 3}, p)
	if err != nil && runtime.GOOS != "linux" {
		t.Skip("this system has no 127.0.0.2 by default:", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	jmx := map[int]bool{}
	for i, n := range nodes {
		if n.Address != "127.0.0."+strconv.Itoa(i+1) || n.Ports["cql"] != nodes[0].Ports["cql"] || n.Ports["storage"] != nodes[0].Ports["storage"] {
			t.Errorf("node %d is at %s with %v", i+1, n.Address, n.Ports)
		}
		jmx[n.Ports["jmx"]] = true
	}
	if len(nodes) != 3 || len(jmx) != 3 {
		t.Fatalf("%d nodes, %d JMX ports", len(nodes), len(jmx))
	}
}
