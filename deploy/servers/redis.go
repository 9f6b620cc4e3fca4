package main

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// redis is a single server, or a Redis Cluster of that many masters.
type redis struct{ masters int }

func (redis) version() string    { return "from the system" }
func (redis) clientPort() string { return "redis" }

func (redis) tools() []tool {
	return []tool{{
		program: "redis-server", debian: "redis-server",
		check: func(ctx context.Context) error { return atLeast(ctx, 7, "redis-server", "--version") },
	}}
}

func (redis) software(cache) (software, bool) { return software{}, false }

func (r redis) clustered() bool { return r.masters > 1 }

func (r redis) allocate(_ options, p *ports) ([]node, error) {
	var nodes []node
	for range r.masters {
		n := node{Address: "127.0.0.1", Ports: map[string]int{}}
		for _, name := range []string{"redis", "bus"} {
			if name == "bus" && !r.clustered() {
				continue
			}
			port, err := p.take(n.Address)
			if err != nil {
				return nil, err
			}
			n.Ports[name] = port
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

func (r redis) prepare(_ context.Context, s server, n node, _ string) (command, error) {
	if err := folders(n, "data"); err != nil {
		return command{}, err
	}
	conf := filepath.Join(n.Folder, "redis.conf")
	err := fill("redis.conf.tmpl", conf, map[string]any{
		"Address": n.Address, "Port": n.Ports["redis"], "Bus": n.Ports["bus"], "Data": n.data(), "Cluster": r.clustered(),
		"Secure": s.Secure, "User": s.Secrets.User, "Password": s.Secrets.Password,
		"Certificate": s.pem("certificate"), "Key": s.pem("key"), "Authority": s.Secrets.Authority,
	})
	return command{Args: []string{"redis-server", conf}}, err
}

// askRedis sends one command on a new connection and returns the answer.
func askRedis(ctx context.Context, s server, n node, words ...string) (string, error) {
	o := rueidis.ClientOption{
		InitAddress: []string{n.at("redis")}, ForceSingleClient: true, AlwaysRESP2: true, DisableCache: true, DisableRetry: true,
		ClientSetInfo: rueidis.DisableClientSetInfo, Dialer: net.Dialer{Timeout: 2 * time.Second}, ConnWriteTimeout: 5 * time.Second,
	}
	var err error
	if o.TLSConfig, err = s.tls(); err != nil {
		return "", err
	}
	if s.Secure {
		o.Username, o.Password = s.Secrets.User, s.Secrets.Password
	}
	c, err := rueidis.NewClient(o)
	if err != nil {
		return "", err
	}
	defer c.Close()
	return c.Do(ctx, c.B().Arbitrary(words...).Build()).ToString()
}

func (redis) ping(ctx context.Context, s server, n node) error {
	answer, err := askRedis(ctx, s, n, "PING")
	if err == nil && answer != "PONG" {
		err = fmt.Errorf("unexpected answer %q to PING", answer)
	}
	return err
}

// settle assigns the slots, introduces the masters to each other, and checks that each
// reports a complete cluster.
func (r redis) settle(ctx context.Context, s server) error {
	if !r.clustered() {
		return nil
	}
	for i, n := range s.Nodes {
		if err := r.join(ctx, s, i); err != nil {
			return fmt.Errorf("node %d: %w", n.Number, err)
		}
	}
	for _, n := range s.Nodes {
		info, err := askRedis(ctx, s, n, "CLUSTER", "INFO")
		if err != nil {
			return err
		}
		if !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d\r", len(s.Nodes))) {
			return fmt.Errorf("node %d does not report a complete cluster yet", n.Number)
		}
	}
	return nil
}

// join assigns the slots of node i and introduces it to the first node, once.
func (redis) join(ctx context.Context, s server, i int) error {
	n := s.Nodes[i]
	own, err := askRedis(ctx, s, n, "CLUSTER", "NODES")
	if err != nil {
		return err
	}
	if !hasSlots(own) {
		first, last := slots(i, len(s.Nodes))
		if _, err := askRedis(ctx, s, n, "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(first), strconv.Itoa(last)); err != nil {
			return err
		}
	}
	if i == 0 || strings.Count(strings.TrimSpace(own), "\n") > 0 {
		return nil
	}
	_, err = askRedis(ctx, s, s.Nodes[0], "CLUSTER", "MEET", n.Address, strconv.Itoa(n.Ports["redis"]), strconv.Itoa(n.Ports["bus"]))
	return err
}

// hasSlots reports whether the node has slots: on its own line in CLUSTER NODES they
// follow the eighth word.
func hasSlots(nodes string) bool {
	for line := range strings.Lines(nodes) {
		if strings.Contains(line, "myself") {
			return len(strings.Fields(line)) > 8
		}
	}
	return false
}

// slots returns the slot range of master i of n: equal shares of 16384.
func slots(i, n int) (first, last int) {
	const all = 16384
	return i * all / n, (i+1)*all/n - 1
}

func (r redis) env(s server) []variable {
	name := "REDIS"
	if r.clustered() {
		name = "REDIS_CLUSTER"
	}
	return append([]variable{{name, strings.Join(s.all(), ",")}}, s.credentials(name)...)
}
