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
	"sync/atomic"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

type cassandra struct{}

func (cassandra) version() string    { return "5.0.9" }
func (cassandra) clientPort() string { return "cql" }
func (cassandra) tools() []tool      { return []tool{java17()} }

func (c cassandra) software(in cache) (software, bool) {
	return jars{
		name: "cassandra", version: c.version(), cost: "about 93 MB from Maven Central, 62 MB of them kept, one to two minutes",
		pom: text("cassandra-pom.xml"), list: text("cassandra-jars.sha256"),
	}.software(in), true
}

// allocate takes one address per node and the same ports on all of them, because
// drivers assume that all nodes of a ring use one port.
func (cassandra) allocate(o options, p *ports) ([]node, error) {
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

// token returns the first token of node i of n, for equal shares of the ring.
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
		"NoHints": s.NoHints, "Secure": s.Secure, "KeyAndCertificate": s.pem("both"), "Authority": s.Secrets.Authority,
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

// ping opens a CQL session. A request for credentials by a secure node also counts as
// an answer, because the role is created only when all nodes are up.
func (cassandra) ping(_ context.Context, s server, n node) error {
	asks := &challenged{}
	session, err := cqlSession(s, n, asks)
	if err != nil {
		if s.Secure && asks.was.Load() {
			return nil
		}
		return err
	}
	session.Close()
	return nil
}

// challenged records that a node asked for credentials, and sends none.
type challenged struct{ was atomic.Bool }

// Challenge implements gocql.Authenticator.
func (c *challenged) Challenge([]byte) ([]byte, gocql.Authenticator, error) {
	c.was.Store(true)
	return nil, nil, errors.New("no credentials")
}

// Success implements gocql.Authenticator.
func (*challenged) Success([]byte) error { return nil }

// cqlSession connects to one node only, not to the others of its ring.
func cqlSession(s server, n node, as gocql.Authenticator) (*gocql.Session, error) {
	c := gocql.NewCluster(n.Address)
	c.Port, c.ProtoVersion, c.NumConns = n.Ports["cql"], 4, 1
	c.Timeout, c.ConnectTimeout, c.MaxWaitSchemaAgreement = 5*time.Second, 2*time.Second, 5*time.Second
	c.DisableInitialHostLookup, c.HostFilter = true, gocql.WhiteListHostFilter(n.Address)
	c.Events.DisableNodeStatusEvents, c.Events.DisableTopologyEvents, c.Events.DisableSchemaEvents = true, true, true
	c.Metadata.CacheMode = gocql.Disabled
	c.Logger = gocql.NewLogger(gocql.LogLevelNone)
	encrypted, err := s.tls()
	if err != nil {
		return nil, err
	}
	if encrypted != nil {
		c.SslOpts, c.Authenticator = &gocql.SslOptions{Config: encrypted, EnableHostVerification: true}, as
	}
	return c.CreateSession()
}

// settle checks that each node sees all others and the same schema and, from three
// nodes on, that each answers a read with consistency ALL.
func (k cassandra) settle(ctx context.Context, s server) error {
	for _, n := range s.Nodes {
		session, err := k.login(ctx, s, n)
		if err != nil {
			return fmt.Errorf("node %d: %w", n.Number, err)
		}
		err = agreed(ctx, session, len(s.Nodes))
		session.Close()
		if err != nil {
			return fmt.Errorf("node %d: %w", n.Number, err)
		}
	}
	return nil
}

func agreed(ctx context.Context, session *gocql.Session, nodes int) error {
	var schemas []string
	for _, table := range []string{"local", "peers_v2"} {
		iter := session.Query("SELECT schema_version FROM system." + table).Consistency(gocql.One).IterContext(ctx)
		for schema := (gocql.UUID{}); iter.Scan(&schema); {
			schemas = append(schemas, schema.String())
		}
		if err := iter.Close(); err != nil {
			return err
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
	// This keyspace has three replicas by default.
	return session.Query("SELECT * FROM system_distributed.view_build_status LIMIT 1").Consistency(gocql.All).IterContext(ctx).Close()
}

// login connects with the role of the secrets. If there is none yet, it creates the role
// as the default superuser of a new cluster and replicates the roles to every node, so
// that logins work while a node is down.
func (cassandra) login(ctx context.Context, s server, n node) (*gocql.Session, error) {
	session, refused := cqlSession(s, n, gocql.PasswordAuthenticator{Username: s.Secrets.User, Password: s.Secrets.Password})
	if refused == nil || !s.Secure {
		return session, refused
	}
	first, err := cqlSession(s, n, gocql.PasswordAuthenticator{Username: "cassandra", Password: "cassandra"})
	if err != nil {
		return nil, errors.Join(refused, err)
	}
	defer first.Close()
	for _, statement := range []string{
		fmt.Sprintf("ALTER KEYSPACE system_auth WITH replication = {'class': 'SimpleStrategy', 'replication_factor': %d}", min(3, len(s.Nodes))),
		fmt.Sprintf("CREATE ROLE IF NOT EXISTS %s WITH PASSWORD = '%s' AND LOGIN = true AND SUPERUSER = true", s.Secrets.User, s.Secrets.Password),
	} {
		if err := first.Query(statement).Consistency(gocql.One).ExecContext(ctx); err != nil {
			return nil, err
		}
	}
	return nil, errors.New("the role was just created")
}

func (cassandra) env(s server) []variable {
	return append([]variable{{"CASSANDRA", strings.Join(s.all(), ",")}}, s.credentials("CASSANDRA")...)
}
