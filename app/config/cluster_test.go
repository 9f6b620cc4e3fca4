package config_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/store"
)

func validCluster() config.Config {
	c := valid()
	c.Profile, c.Node, c.Tokens.KeyFile = config.Cluster, "a", "/etc/mayfly/key"
	c.Cassandra.Hosts = []string{"10.0.0.1", "cassandra-b.example.org", "10.0.0.3:9042", "fd00::1"}
	c.Redis.Addresses, c.Kafka.Brokers = []string{"10.0.0.4:6379"}, []string{"kafka.example.org:9092"}
	c.S3.Endpoint, c.S3.Hot, c.S3.Cold, c.S3.Deletions = "https://s3.example.org", "media/hot", "media/cold", "deletions"
	return c
}

func TestAClusterWithoutItsServersIsRefused(t *testing.T) {
	c := validCluster()
	c.Redis.Lease = store.CacheAge
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*config.Config){
		"profile is":                      func(c *config.Config) { c.Profile = "clustered" },
		"roles is empty":                  func(c *config.Config) { c.Roles = nil },
		"roles has":                       func(c *config.Config) { c.Roles = []string{"sweep"} },
		"embedded profile is one process": func(c *config.Config) { c.Profile, c.Roles = config.Embedded, []string{"api"} },
		"kv.events is true":               func(c *config.Config) { c.KV.Events = true },
		"tokens.key_file is empty":        func(c *config.Config) { c.Tokens.KeyFile = "" },
		"cassandra.hosts is empty":        func(c *config.Config) { c.Cassandra.Hosts = nil },
		"cassandra.hosts has \"a/b\"":     func(c *config.Config) { c.Cassandra.Hosts = []string{"a/b"} },
		"the ports 9042 and 9043":         func(c *config.Config) { c.Cassandra.Hosts = []string{"10.0.0.1", "10.0.0.2:9043"} },
		"cassandra.keyspace is":           func(c *config.Config) { c.Cassandra.Keyspace = "My-Keyspace" },
		"cassandra.replication_factor is": func(c *config.Config) { c.Cassandra.Copies = 0 },
		"cassandra.data_centres has":      func(c *config.Config) { c.Cassandra.DataCentres = []string{"east"} },
		"cassandra.timeout is":            func(c *config.Config) { c.Cassandra.Timeout = 0 },
		"cassandra.ca_file is set":        func(c *config.Config) { c.Cassandra.Authority = "ca.pem" },
		"redis.addresses is empty":        func(c *config.Config) { c.Redis.Addresses = nil },
		"redis.addresses has":             func(c *config.Config) { c.Redis.Addresses = []string{"redis"} },
		"redis.prefix is":                 func(c *config.Config) { c.Redis.Prefix = "a{b" },
		"redis.lease is":                  func(c *config.Config) { c.Redis.Lease = 100 * time.Millisecond },
		"older, so a longer lease":        func(c *config.Config) { c.Redis.Lease = store.CacheAge + time.Millisecond },
		"redis.ca_file is set":            func(c *config.Config) { c.Redis.Authority = "ca.pem" },
		"kafka.brokers is empty":          func(c *config.Config) { c.Kafka.Brokers = nil },
		"kafka.brokers has":               func(c *config.Config) { c.Kafka.Brokers = []string{"kafka"} },
		"kafka.partitions is":             func(c *config.Config) { c.Kafka.Partitions = 0 },
		"kafka.replication_factor is":     func(c *config.Config) { c.Kafka.Copies = 0 },
		"kafka.mechanism is":              func(c *config.Config) { c.Kafka.Mechanism = "PLAIN" },
		"kafka.ca_file is set":            func(c *config.Config) { c.Kafka.Authority = "ca.pem" },
		"s3.endpoint is":                  func(c *config.Config) { c.S3.Endpoint = "s3.example.org" },
		"s3.public is":                    func(c *config.Config) { c.S3.Public = "s3" },
		"one of s3.key and s3.secret is":  func(c *config.Config) { c.S3.Key = "canary" },
		"s3.hot is":                       func(c *config.Config) { c.S3.Hot = "" },
		"s3.cold is \"media/\"":           func(c *config.Config) { c.S3.Cold = "media/cold/" },
		"s3.deletions is":                 func(c *config.Config) { c.S3.Deletions = "/x" },
	} {
		c := validCluster()
		spoil(&c)
		err := c.Validate()
		name, _, _ = strings.Cut(name, " \"media/\"")
		if !errors.Is(err, mayfly.Invalid) || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "(") || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestHostsParseWithAndWithoutPort(t *testing.T) {
	c := config.Cassandra{Hosts: []string{"10.0.0.1:9142", "b.example.org:9142"}, DataCentres: []string{"east:3", "west:2"}}
	port, err := c.Port()
	centres, wrong := c.Centres()
	if err != nil || wrong != nil || port != 9142 || strings.Join(c.Names(), " ") != "10.0.0.1 b.example.org" || centres["east"] != 3 || centres["west"] != 2 {
		t.Fatal(port, c.Names(), centres, err, wrong)
	}
	if port, err = (config.Cassandra{Hosts: []string{"fd00::1"}}).Port(); err != nil || port != 9042 {
		t.Fatal(port, err)
	}
}

// clusterFlags returns the settings that a cluster requires.
func clusterFlags() map[string]string {
	return map[string]string{
		"profile": "cluster", "tokens.key_file": "k", "cassandra.hosts": "10.0.0.1", "redis.addresses": "10.0.0.1:6379", "kafka.brokers": "10.0.0.1:9092",
		"s3.endpoint": "https://s3.example.org", "s3.hot": "media/hot", "s3.cold": "media/cold", "s3.deletions": "media/deletions",
	}
}

func without(flags map[string]string, key string) map[string]string {
	delete(flags, key)
	return flags
}

func TestTheDefaultOfDrainAfterDependsOnTheProfile(t *testing.T) {
	for name, tc := range map[string]struct {
		from config.Sources
		want time.Duration
	}{
		"one process":           {config.Sources{File: fileOf(t, "")}, 0},
		"a cluster":             {config.Sources{File: fileOf(t, ""), Flags: clusterFlags()}, 5 * time.Second},
		"a cluster by its file": {config.Sources{File: fileOf(t, "profile: cluster\n"), Flags: without(clusterFlags(), "profile")}, 5 * time.Second},
		"a cluster without":     {config.Sources{File: fileOf(t, "listen:\n  drain_after: 0s\n"), Flags: clusterFlags()}, 0},
		"by the environment":    {config.Sources{File: fileOf(t, ""), Environ: []string{"MAYFLY_LISTEN_DRAIN_AFTER=7s"}, Flags: clusterFlags()}, 7 * time.Second},
	} {
		if c, err := config.Load(tc.from); err != nil || c.Listen.DrainAfter != tc.want {
			t.Errorf("%s: %s, %v", name, c.Listen.DrainAfter, err)
		}
	}
}

// A request to a server that hangs must leave time for a second one.
func TestTheDefaultTimeoutOfCassandraAllowsASecondTry(t *testing.T) {
	c := config.Default()
	if twice := 2 * c.Cassandra.Timeout; twice >= c.Births.Timeout || twice >= c.Walk.Timeout {
		t.Errorf("cassandra.timeout is %s, births.timeout %s, walk.timeout %s", c.Cassandra.Timeout, c.Births.Timeout, c.Walk.Timeout)
	}
}

func TestTheNodeNameDefaultsToTheHostNameOnACluster(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	flags := clusterFlags()
	load := func() string {
		c, err := config.Load(config.Sources{File: fileOf(t, ""), Flags: flags})
		if err != nil {
			t.Fatal(err)
		}
		return c.Node
	}
	if name := load(); name != host {
		t.Errorf("node is %q, host is %q", name, host)
	}
	flags["node"] = "a"
	if name := load(); name != "a" {
		t.Errorf("node is %q", name)
	}
}
