package config

import (
	"cmp"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// cluster checks the profile and the roles, and on a cluster the servers.
func (c Config) cluster() []error {
	var errs []error
	if len(c.Roles) == 0 {
		errs = append(errs, invalid("write all, or api, or walk", "roles is empty"))
	}
	for _, role := range c.Roles {
		if !slices.Contains([]string{"api", "walk", "all"}, role) {
			errs = append(errs, invalid("write all, or api, or walk", "roles has %q", role))
		}
	}
	switch c.Profile {
	case Embedded:
		if !slices.Contains(c.Roles, "all") && len(c.Roles) == 1 {
			errs = append(errs, invalid("write all: no other process can do the rest", "the embedded profile is one process, and roles is %s", c.Roles[0]))
		}
	case Cluster:
		if c.KV.Events {
			errs = append(errs, invalid("write false: Cassandra does not tell when a key expires", "kv.events is true on a cluster"))
		}
		if c.Tokens.KeyFile == "" {
			errs = append(errs, invalid("set the same file on all nodes: each must accept the tokens of the others", "tokens.key_file is empty on a cluster"))
		}
		errs = slices.Concat(errs, c.Cassandra.check(), c.Redis.check(), c.Kafka.check(), c.S3.check())
	default:
		errs = append(errs, invalid("write embedded or cluster", "profile is %q", c.Profile))
	}
	return errs
}

func (c Cassandra) check() []error {
	errs := addresses("cassandra.hosts", c.Hosts, "9042")
	if _, err := c.Port(); err != nil {
		errs = append(errs, err)
	}
	if _, err := c.Centres(); err != nil {
		errs = append(errs, err)
	}
	if !regexp.MustCompile(`^[a-z][a-z0-9_]{0,47}$`).MatchString(c.Keyspace) {
		errs = append(errs, invalid("write up to 48 lower-case letters, digits and _", "cassandra.keyspace is %q", c.Keyspace))
	}
	errs = append(errs, counts([]count{{"cassandra.replication_factor", int64(c.Copies), 1, 100}})...)
	errs = append(errs, spans([]span{{"cassandra.timeout", c.Timeout, 100 * time.Millisecond, 10 * time.Minute}})...)
	return append(errs, checkTLS("cassandra", c.TLS, c.Authority)...)
}

// Port returns the port of the hosts, which must all have the same one.
func (c Cassandra) Port() (int, error) {
	port := ""
	for _, host := range c.Hosts {
		_, its, err := net.SplitHostPort(host)
		if err != nil {
			its = "9042"
		}
		if port != "" && its != port {
			return 0, invalid("use the same port on all nodes of the cluster", "cassandra.hosts has the ports %s and %s", port, its)
		}
		port = its
	}
	return strconv.Atoi(cmp.Or(port, "9042"))
}

// Names returns the hosts without ports.
func (c Cassandra) Names() []string {
	names := make([]string, len(c.Hosts))
	for i, host := range c.Hosts {
		name, _, err := net.SplitHostPort(host)
		if err != nil {
			name = host
		}
		names[i] = name
	}
	return names
}

// Centres returns the replication factor of each data centre.
func (c Cassandra) Centres() (map[string]int, error) {
	centres := map[string]int{}
	for _, text := range c.DataCentres {
		name, number, _ := strings.Cut(text, ":")
		copies, err := strconv.Atoi(number)
		if err != nil || copies < 1 || name == "" {
			return nil, invalid("write names and numbers, such as east:3", "cassandra.data_centres has %q", text)
		}
		centres[name] = copies
	}
	return centres, nil
}

// longestLease is store.CacheAge, which this package may not import. A test checks
// that they are equal.
const longestLease = 3 * time.Second

func (r Redis) check() []error {
	errs := addresses("redis.addresses", r.Addresses, "")
	if r.Prefix == "" || strings.ContainsAny(r.Prefix, "{} \t\n") {
		errs = append(errs, invalid("write a word, such as mayfly", "redis.prefix is %q", r.Prefix))
	}
	if r.Lease < time.Second || r.Lease > longestLease {
		errs = append(errs, invalid("set it from 1s to "+durationText(longestLease)+": caches never use entries that are older, so a longer lease only delays deletes",
			"redis.lease is %s", durationText(r.Lease)))
	}
	return append(errs, checkTLS("redis", r.TLS, r.Authority)...)
}

func (k Kafka) check() []error {
	errs := addresses("kafka.brokers", k.Brokers, "")
	errs = append(errs, counts([]count{{"kafka.partitions", int64(k.Partitions), 1, 10_000}, {"kafka.replication_factor", int64(k.Copies), 1, 100}})...)
	if !slices.Contains([]string{"SCRAM-SHA-256", "SCRAM-SHA-512"}, k.Mechanism) {
		errs = append(errs, invalid("write SCRAM-SHA-512 or SCRAM-SHA-256", "kafka.mechanism is %q", k.Mechanism))
	}
	return append(errs, checkTLS("kafka", k.TLS, k.Authority)...)
}

func (s S3) check() []error {
	var errs []error
	if !isURL(s.Endpoint, "http", "https") {
		errs = append(errs, invalid("write the server's URL, such as https://s3.example.org", "s3.endpoint is %q", withoutSecret(s.Endpoint)))
	}
	if s.Public != "" && !isURL(s.Public, "http", "https") {
		errs = append(errs, invalid("write the server's URL as users reach it", "s3.public is %q", withoutSecret(s.Public)))
	}
	if (s.Key == "") != (s.Secret == "") {
		errs = append(errs, invalid("set both, or neither to use those of the environment", "one of s3.key and s3.secret is empty"))
	}
	for _, tier := range []struct{ name, place string }{{"s3.hot", s.Hot}, {"s3.cold", s.Cold}, {"s3.deletions", s.Deletions}} {
		if bucket, prefix := BucketOf(tier.place); len(bucket) < 3 || strings.HasPrefix(prefix, "/") || strings.HasSuffix(prefix, "/") {
			errs = append(errs, invalid("write a bucket, or a bucket and a prefix, such as media/hot", "%s is %q", tier.name, tier.place))
		}
	}
	return errs
}

// BucketOf splits a bucket with a prefix.
func BucketOf(place string) (bucket, prefix string) {
	bucket, prefix, _ = strings.Cut(place, "/")
	return bucket, prefix
}

// addresses checks a list of host:port. The port may be missing if there is a default
// port.
func addresses(key string, all []string, defaultPort string) []error {
	if len(all) == 0 {
		return []error{invalid("write at least one host:port", "%s is empty on a cluster", key)}
	}
	var errs []error
	for _, one := range all {
		_, _, err := net.SplitHostPort(one)
		if err != nil && defaultPort != "" && net.ParseIP(one) == nil && !strings.Contains(one, ":") {
			err = nil // a host name
		}
		if err != nil && (defaultPort == "" || net.ParseIP(one) == nil) || err == nil && strings.HasPrefix(one, ":") || strings.ContainsAny(one, "/@ ") {
			errs = append(errs, invalid("write host:port", "%s has %q", key, withoutSecret(one)))
		}
	}
	return errs
}

// checkTLS checks the settings of encryption.
func checkTLS(section string, encrypted bool, authority string) []error {
	if authority != "" && !encrypted {
		return []error{invalid("set "+section+".tls: true, or remove it", "%s.ca_file is set and %s.tls is not", section, section)}
	}
	return nil
}
