package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

type cassandra struct{}

func (cassandra) version() string { return "5.0.9" }
func (cassandra) door() string    { return "cql" }
func (cassandra) tools() []tool   { return []tool{java17()} }

func (c cassandra) software(in cache) (software, bool) {
	return jars{
		name: "cassandra", version: c.version(), cost: "about 93 MB from Maven Central, 62 MB of them kept, one to two minutes",
		pom: text("cassandra-pom.xml"), list: text("cassandra-jars.sha256"),
	}.software(in), true
}

// place takes one address a node and the same ports on all: that is how a ring
// looks elsewhere, and drivers learn one port.
func (cassandra) place(o order, p *ports) ([]node, error) {
	var addresses []string
	for i := range o.nodes {
		addresses = append(addresses, fmt.Sprintf("127.0.0.%d", i+1))
	}
	cql, err := p.take(addresses...)
	if err != nil {
		return nil, err
	}
	storage, err := p.take(addresses...)
	if err != nil {
		return nil, err
	}
	var nodes []node
	for _, a := range addresses {
		jmx, err := p.take("127.0.0.1")
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, node{Address: a, Ports: map[string]int{"cql": cql, "storage": storage, "jmx": jmx}})
	}
	return nodes, nil
}

// token is where node i of n begins on the ring: equal shares.
func token(i, n int) int64 {
	if n == 1 {
		return 0
	}
	return math.MinInt64 + int64(uint64(i)*(math.MaxUint64/uint64(n))) // wraps around, as the ring does
}

func (cassandra) prepare(ctx context.Context, s server, n node, lib string) (command, error) {
	java, err := findJava(ctx)
	if err != nil {
		return command{}, err
	}
	if err := folders(n, "conf", "data", "logs", "triggers"); err != nil {
		return command{}, err
	}
	var seeds []string
	for _, m := range s.Nodes {
		seeds = append(seeds, m.at("storage"))
	}
	conf := filepath.Join(n.Folder, "conf")
	err = fill("cassandra.yaml.tmpl", filepath.Join(conf, "cassandra.yaml"), map[string]any{
		"Token": token(n.Number-1, len(s.Nodes)), "Nodes": len(s.Nodes), "Seeds": strings.Join(seeds, ","),
		"Address": n.Address, "Storage": n.Ports["storage"], "CQL": n.Ports["cql"],
		"Secure": s.Secure, "KeyAndCertificate": s.pem("both"), "Authority": s.Secrets.Authority,
	})
	if err != nil {
		return command{}, err
	}
	if err := os.WriteFile(filepath.Join(conf, "logback.xml"), text("cassandra-logback.xml"), 0o600); err != nil {
		return command{}, err
	}
	ringDelay := 0
	if len(s.Nodes) > 1 {
		ringDelay = 2000
	}
	args := slices.Concat([]string{java, "-Xms" + s.Heap, "-Xmx" + s.Heap}, lines("cassandra-jvm.txt"), []string{
		"-javaagent:" + filepath.Join(lib, "jamm-0.4.0.jar"),
		"-Dcassandra.config=file://" + filepath.Join(conf, "cassandra.yaml"),
		"-Dlogback.configurationFile=file:" + filepath.Join(conf, "logback.xml"),
		"-Dcassandra.storagedir=" + n.data(),
		"-Dcassandra.logdir=" + filepath.Join(n.Folder, "logs"),
		"-Dcassandra.triggers_dir=" + filepath.Join(n.Folder, "triggers"),
		"-Dcassandra.ring_delay_ms=" + strconv.Itoa(ringDelay),
		"-Dcassandra.consistent.rangemovement=false",
		"-Dcassandra.jmx.local.port=" + strconv.Itoa(n.Ports["jmx"]),
		"-cp", conf + ":" + filepath.Join(lib, "*"),
		"org.apache.cassandra.service.CassandraDaemon",
	})
	return command{Args: args, Env: []string{"MALLOC_ARENA_MAX=2"}}, nil
}

func (cassandra) reach(ctx context.Context, s server, n node) error {
	c, err := dialCQL(ctx, s, n)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.ask(cqlOptions, nil, cqlSupported)
	return err
}

// settle waits until each node knows all the others and one schema, and, where
// there are three, until a read that needs all of them is answered by each.
func (k cassandra) settle(ctx context.Context, s server) error {
	for _, n := range s.Nodes {
		c, err := k.login(ctx, s, n)
		if err != nil {
			return fmt.Errorf("node %d: %w", n.Number, err)
		}
		err = errors.Join(agreed(c, len(s.Nodes)), c.Close())
		if err != nil {
			return fmt.Errorf("node %d: %w", n.Number, err)
		}
	}
	return nil
}

func agreed(c *cqlConn, nodes int) error {
	var schemas []string
	for _, table := range []string{"local", "peers_v2"} {
		rows, err := c.query("SELECT schema_version FROM system."+table, consistencyOne)
		if err != nil {
			return err
		}
		for _, row := range rows {
			schemas = append(schemas, fmt.Sprintf("%x", row[0]))
		}
	}
	if len(schemas) != nodes {
		return fmt.Errorf("sees %d nodes of %d", len(schemas), nodes)
	}
	slices.Sort(schemas)
	if len(slices.Compact(schemas)) != 1 {
		return errors.New("the nodes do not agree on the schema yet")
	}
	if nodes < 3 {
		return nil
	}
	// The keyspace has three replicas from the beginning.
	_, err := c.query("SELECT * FROM system_distributed.view_build_status LIMIT 1", consistencyAll)
	return err
}

// login makes our role at the first time, as the superuser that a new cluster
// begins with, and gives every node a copy of the roles, so that one dead node
// locks nobody out.
func (cassandra) login(ctx context.Context, s server, n node) (*cqlConn, error) {
	c, err := dialCQL(ctx, s, n)
	if err != nil {
		return nil, err
	}
	refused := c.startup(s.Secrets.User, s.Secrets.Password)
	if refused == nil {
		return c, nil
	}
	c.Close()
	if !s.Secure {
		return nil, refused
	}
	first, err := dialCQL(ctx, s, n)
	if err != nil {
		return nil, err
	}
	defer first.Close()
	if err := first.startup("cassandra", "cassandra"); err != nil {
		return nil, err
	}
	for _, statement := range []string{
		fmt.Sprintf("ALTER KEYSPACE system_auth WITH replication = {'class': 'SimpleStrategy', 'replication_factor': %d}", min(3, len(s.Nodes))),
		fmt.Sprintf("CREATE ROLE IF NOT EXISTS %s WITH PASSWORD = '%s' AND LOGIN = true AND SUPERUSER = true", s.Secrets.User, s.Secrets.Password),
	} {
		if _, err := first.query(statement, consistencyOne); err != nil {
			return nil, err
		}
	}
	return nil, errors.New("the role was just made")
}

func (cassandra) env(s server) []variable {
	return append([]variable{{"CASSANDRA", strings.Join(s.all(), ",")}}, s.credentials("CASSANDRA")...)
}
