package cli

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/app/profile"
	"github.com/mayflyhq/mayfly/store"
)

// clusterPlace is a corner of a cluster that one run has to itself: a keyspace,
// topics, keys and prefixes of its own.
type clusterPlace struct {
	config config.Config
	failed problems // what loops of its nodes could not do, and did later
}

// newClusterPlace is a place on the servers that the settings name, or else on
// those of the environment that deploy/servers prints. What nodes keep on disk
// goes to folder.
func newClusterPlace(s settings, folder string) (*clusterPlace, error) {
	if s.profile != "" && s.profile != config.Cluster {
		return nil, usage(mayfly.Errorf(mayfly.Invalid, "--profile %s has no cluster", s.profile).WithHint("leave it out"))
	}
	s.profile, s.data = config.Cluster, filepath.Join(folder, "data")
	own := "tokens.key_file=" + filepath.Join(folder, "key")
	if s.file == "" {
		s.set = append(testServers(os.Getenv), s.set...) // a flag is over the environment
	}
	s.set = append(slices.Clone(s.set), own)
	cfg, err := s.load(nil)
	if errors.Is(err, mayfly.Invalid) && s.file == "" && os.Getenv(testPrefix+"CASSANDRA") == "" {
		return nil, mayfly.Wrap(mayfly.Invalid, fmt.Errorf("no servers are named: %w", err),
			`name them with --config, or start some: eval "$(go run ./deploy/servers up)" && mayfly bench cluster`)
	}
	if err != nil {
		return nil, err
	}
	return &clusterPlace{config: apart(cfg)}, nil
}

// apart gives cfg names that nobody else has.
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

// testServers are the settings by which the servers of the environment are reached;
// none if there are none.
func testServers(env func(string) string) (set []string) {
	add := func(key, name string) {
		if value := env(testPrefix + name); value != "" {
			set = append(set, key+"="+value)
		}
	}
	for section, key := range map[string]string{"cassandra": "hosts", "kafka": "brokers", "redis": "addresses"} {
		name := strings.ToUpper(section)
		add(section+"."+key, name)
		add(section+".user", name+"_USER")
		add(section+".password", name+"_PASSWORD")
		if env(testPrefix+name+"_CA") != "" {
			set = append(set, section+".tls=true")
			add(section+".authority", name+"_CA")
		}
	}
	if hosts := env(testPrefix + "CASSANDRA"); hosts != "" { // rings of one and of three
		set = append(set, "cassandra.copies="+strconv.Itoa(min(3, 1+strings.Count(hosts, ","))))
	}
	if env(testPrefix+"KAFKA") != "" { // one broker
		set = append(set, "kafka.copies=1", "kafka.partitions=8")
	}
	for key, name := range map[string]string{"endpoint": "S3", "region": "S3_REGION", "key": "S3_KEY", "secret": "S3_SECRET", "authority": "S3_CA"} {
		add("s3."+key, name)
	}
	if bucket := env(testPrefix + "S3_BUCKET"); bucket != "" {
		set = append(set, "s3.hot="+bucket+"/hot", "s3.cold="+bucket+"/cold", "s3.deletions="+bucket+"/deletions")
	}
	return set
}

// start starts a node with connections of its own, its settings changed by set.
func (p *clusterPlace) start(ctx context.Context, name string, set func(o *node.Options)) (*benchEngine, error) {
	late := newLateClock()
	st, err := profile.Open(ctx, p.config, late.time())
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
	late.follow(e.node.Clock())
	return e, nil
}

// problem keeps what a loop could not do. A stop cuts short what is under way.
func (p *clusterPlace) problem(loop string, err error) {
	if !errors.Is(err, context.Canceled) {
		p.failed.tell(loop, err)
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

// leave takes away what can be: media. For keyspaces and topics there is no such
// operation in the contracts; the operator is told their names.
func (p *clusterPlace) leave(ctx context.Context, b *bench) error {
	st, err := profile.Open(ctx, p.config, newLateClock().time())
	if err != nil {
		return err
	}
	for _, tier := range []store.Blobs{st.Set.Hot, st.Set.Cold, st.Set.Deletions} {
		err = errors.Join(err, empty(ctx, tier))
	}
	if failed := p.failed.err(); failed != nil {
		b.stages.note("a loop failed and tried again, first: %v", failed)
	}
	b.stages.note("left behind, to be dropped by hand: keyspace %s; topics %sbirths and %sends", p.config.Cassandra.Keyspace, p.config.Kafka.Prefix, p.config.Kafka.Prefix)
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
