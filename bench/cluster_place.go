package bench

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/app/profile"
	"github.com/mayflyhq/mayfly/app/server"
	"github.com/mayflyhq/mayfly/store"
)

// clusterPlace is a corner of a cluster that one run has to itself: a keyspace,
// topics, keys and prefixes of its own.
type clusterPlace struct {
	config config.Config
	failed problems // what loops of its nodes could not do, and did later
}

// newClusterPlace returns a place on the servers that the configuration names, or
// without a configuration file on those of the environment that deploy/servers
// prints. The nodes keep their files in folder.
func newClusterPlace(from config.Sources, folder string) (*clusterPlace, error) {
	flags := map[string]string{}
	if from.File == "" {
		maps.Copy(flags, testServers(os.Getenv))
	}
	maps.Copy(flags, from.Flags) // flags override the environment
	if p := flags["profile"]; p != "" && p != config.Cluster {
		return nil, mayfly.Errorf(mayfly.Invalid, "--profile %s has no cluster", p).WithHint("leave it out")
	}
	flags["profile"], flags["data"], flags["tokens.key_file"] = config.Cluster, filepath.Join(folder, "data"), filepath.Join(folder, "key")
	cfg, err := config.Load(config.Sources{File: from.File, Environ: from.Environ, Flags: flags})
	if errors.Is(err, mayfly.Invalid) && from.File == "" && os.Getenv(testPrefix+"CASSANDRA") == "" {
		return nil, mayfly.Wrap(mayfly.Invalid, fmt.Errorf("no servers are named: %w", err),
			`name them with --config, or start some: eval "$(go run ./deploy/servers up)" && mayfly bench cluster`)
	}
	if err != nil {
		return nil, err
	}
	return &clusterPlace{config: apart(cfg)}, nil
}

// apart gives cfg names that no other run has.
func apart(cfg config.Config) config.Config {
	var random [6]byte
	_, _ = rand.Read(random[:]) // never fails
	name := "bench" + hex.EncodeToString(random[:])
	cfg.Cassandra.Keyspace = "mayfly_" + name
	cfg.Kafka.Prefix += name + "."
	cfg.Redis.Prefix += name
	for _, tier := range []*string{&cfg.S3.Hot, &cfg.S3.Cold, &cfg.S3.Deletions} {
		*tier += "/" + name
	}
	return cfg
}

// testPrefix is how the names begin that deploy/servers prints.
const testPrefix = "MAYFLY_TEST_"

// testServers returns the settings with which the servers of the environment are
// reached; none if there are none.
func testServers(env func(string) string) map[string]string {
	set := map[string]string{}
	add := func(key, name string) {
		if value := env(testPrefix + name); value != "" {
			set[key] = value
		}
	}
	for section, key := range map[string]string{"cassandra": "hosts", "kafka": "brokers", "redis": "addresses"} {
		name := strings.ToUpper(section)
		add(section+"."+key, name)
		add(section+".user", name+"_USER")
		add(section+".password", name+"_PASSWORD")
		if env(testPrefix+name+"_CA") != "" {
			set[section+".tls"] = "true"
			add(section+".ca_file", name+"_CA")
		}
	}
	if hosts := env(testPrefix + "CASSANDRA"); hosts != "" { // rings of one and of three
		set["cassandra.replication_factor"] = strconv.Itoa(min(3, 1+strings.Count(hosts, ",")))
	}
	if env(testPrefix+"KAFKA") != "" { // one broker
		set["kafka.replication_factor"], set["kafka.partitions"] = "1", "8"
	}
	for key, name := range map[string]string{"endpoint": "S3", "region": "S3_REGION", "key": "S3_KEY", "secret": "S3_SECRET", "ca_file": "S3_CA"} {
		add("s3."+key, name)
	}
	if bucket := env(testPrefix + "S3_BUCKET"); bucket != "" {
		set["s3.hot"], set["s3.cold"], set["s3.deletions"] = bucket+"/hot", bucket+"/cold", bucket+"/deletions"
	}
	return set
}

// start starts a node with connections of its own, its settings changed by set.
func (p *clusterPlace) start(ctx context.Context, name string, set func(o *node.Options)) (*benchEngine, error) {
	late := server.NewLateClock()
	st, err := profile.Open(ctx, p.config, node.Tables(), late.Time())
	if err != nil {
		return nil, err
	}
	e := &benchEngine{config: p.config, store: st}
	o := node.FromConfig(p.config)
	o.Name, o.Reclaim, o.Problem = name, st.Reclaim, p.problem
	if set != nil {
		set(&o)
	}
	if o.Products.Key, err = node.LoadKey(p.config); err == nil {
		e.node, err = node.Start(ctx, st.Set, o)
	}
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	late.Follow(e.node.Clock())
	return e, nil
}

// problem keeps what a loop could not do. A stop cuts short what is under way.
func (p *clusterPlace) problem(loop string, err error) {
	if !errors.Is(err, context.Canceled) {
		p.failed.report(loop, err)
	}
}

// pair starts two nodes, both with set.
func (p *clusterPlace) pair(ctx context.Context, set func(o *node.Options)) (clusterPair, error) {
	var pair clusterPair
	for n, name := range []string{"a", "b"} {
		e, err := p.start(ctx, name, set)
		if err != nil {
			return clusterPair{}, errors.Join(err, pair.close(ctx))
		}
		pair[n] = e
	}
	return pair, nil
}

// leave deletes the media. The contracts have no operation that drops keyspaces and
// topics, so that their names are printed for the operator.
func (p *clusterPlace) leave(ctx context.Context, b *bench) error {
	st, err := profile.Open(ctx, p.config, node.Tables(), server.NewLateClock().Time())
	if err != nil {
		return err
	}
	for _, tier := range []store.Blobs{st.Set.Hot, st.Set.Cold, st.Set.Deletions} {
		err = errors.Join(err, empty(ctx, tier))
	}
	if failed := p.failed.err(); failed != nil {
		b.progress.Note("a loop failed and tried again, first: %v", failed)
	}
	b.progress.Note("left behind, to be dropped by hand: keyspace %s; topics %sbirths and %sends", p.config.Cassandra.Keyspace, p.config.Kafka.Prefix, p.config.Kafka.Prefix)
	return errors.Join(err, st.Close())
}

// bulkDelete is how many keys one call deletes.
const bulkDelete = 1_000

func empty(ctx context.Context, tier store.Blobs) error {
	for {
		listed, err := tier.List(ctx, "", "", bulkDelete)
		if err != nil || len(listed) == 0 {
			return err
		}
		keys := make([]mayfly.BlobKey, len(listed))
		for i, l := range listed {
			keys[i] = l.Key
		}
		if err := tier.Delete(ctx, keys...); err != nil {
			return err
		}
	}
}
