package profile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/cassandrastore"
	"github.com/mayflyhq/mayfly/store/conn"
	"github.com/mayflyhq/mayfly/store/diskfs"
	"github.com/mayflyhq/mayfly/store/kafkastore"
	"github.com/mayflyhq/mayfly/store/memstore"
	"github.com/mayflyhq/mayfly/store/redisstore"
	"github.com/mayflyhq/mayfly/store/s3store"
)

// Cluster connects to the servers of cfg: items, rows and keys in Cassandra, events in
// Kafka, media in S3, limits and signals in Redis. Each is looked at before it is
// used; a Redis that is away is none of them (I19), and a Kafka that is away is
// looked at when it is back. Errors: Invalid (cfg, or a topic that forgets too
// soon), Unsupported (a server that cannot be relied on), Unavailable.
func Cluster(ctx context.Context, cfg config.Config, tables []store.Table, t Time) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Store{Meter: new(diskfs.Meter), tables: tables, every: cfg.Disk.ReclaimMediaEvery}
	s.Set.Fuse = store.NewFuse() // durability is the servers' to promise: it never blows
	for _, open := range []func(context.Context, config.Config, Time) error{s.openKafkaLate, s.openCassandra, s.openS3, s.openRedis} {
		if err := open(ctx, cfg, t); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

func (s *Store) openKafka(ctx context.Context, cfg config.Config, t Time) error {
	_, err := s.connectKafka(ctx, cfg, t, false)
	return err
}

// openKafkaLate lets a node start while Kafka is away: it keeps events as reminders
// then, as a running one does (L8).
func (s *Store) openKafkaLate(ctx context.Context, cfg config.Config, t Time) error {
	_, err := s.connectKafka(ctx, cfg, t, true)
	return err
}

func (s *Store) connectKafka(ctx context.Context, cfg config.Config, t Time, late bool) (*kafkastore.Store, error) {
	k := cfg.Kafka
	wire, err := wireTLS("kafka", k.TLS, k.Authority)
	if err != nil {
		return nil, err
	}
	password, err := secret("kafka.password", k.Password)
	if err != nil {
		return nil, err
	}
	log, err := kafkastore.Open(ctx, kafkastore.Options{
		Brokers: k.Brokers, Prefix: k.Prefix, Partitions: k.Partitions, ReplicationFactor: k.Copies, Retention: cfg.Log.Retention,
		Credentials: conn.Credentials{User: k.User, Password: password}, Mechanism: kafkastore.Mechanism(k.Mechanism), TLS: wire,
		Late:    late,
		Timeout: max(2*time.Second, cfg.Births.Timeout/2), // a birth still has time to write a reminder instead
		Now:     t.Now, Logger: slog.Default(),
	})
	if err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	s.open = append(s.open, log)
	s.Set.Log = log
	return log, nil
}

// openCassandra comes after the log, which takes the events of batches.
func (s *Store) openCassandra(ctx context.Context, cfg config.Config, t Time) error {
	c := cfg.Cassandra
	port, err := c.Port()
	if err != nil {
		return err
	}
	centres, err := c.Centres()
	if err != nil {
		return err
	}
	wire, err := wireTLS("cassandra", c.TLS, c.Authority)
	if err != nil {
		return err
	}
	password, err := secret("cassandra.password", c.Password)
	if err != nil {
		return err
	}
	ledger, err := cassandrastore.Open(ctx, cassandrastore.Options{
		Tables: s.tables,
		Hosts:  c.Names(), Port: port, Keyspace: c.Keyspace, Copies: c.Copies, DataCentres: centres,
		Credentials: conn.Credentials{User: c.User, Password: password}, TLS: wire, Timeout: c.Timeout,
		Log: s.Set.Log, Now: t.Now, Logger: slog.Default(),
	})
	if err != nil {
		return fmt.Errorf("cassandra: %w", err)
	}
	s.open = append(s.open, ledger)
	s.Set.Writer, s.Set.Ledger, s.Set.Rows, s.Set.KV, s.Set.Time = ledger.Writer(), ledger.Ledger(), ledger.Rows(), ledger.KV(), ledger
	return nil
}

// The longest that an address to read media lasts: hot ones die with the story
// (ST3), cold ones are the author's (ST6).
const (
	hotAddress  = time.Minute
	coldAddress = time.Hour
)

func (s *Store) openS3(ctx context.Context, cfg config.Config, _ Time) error {
	server, err := connectS3(cfg.S3)
	if err != nil {
		return err
	}
	s.open = append(s.open, server)
	for _, tier := range []struct {
		name, place, class string
		longest            time.Duration
		into               *store.Blobs
	}{
		{"hot", cfg.S3.Hot, "", hotAddress, &s.Set.Hot},
		{"cold", cfg.S3.Cold, cfg.S3.ColdClass, coldAddress, &s.Set.Cold},
		{"deletions", cfg.S3.Deletions, "", hotAddress, &s.Set.Deletions},
	} {
		bucket, prefix := config.BucketOf(tier.place)
		opened, err := server.Tier(s3store.TierOptions{Bucket: bucket, Prefix: prefix, Class: tier.class, Longest: tier.longest})
		if err == nil {
			err = opened.Probe(ctx)
		}
		if err != nil {
			return fmt.Errorf("s3.%s: %w", tier.name, err)
		}
		*tier.into = opened
		s.media = append(s.media, func(ctx context.Context, now mayfly.Instant) error {
			_, err := opened.Reclaim(ctx, now)
			return err
		})
	}
	return nil
}

func connectS3(c config.S3) (*s3store.Server, error) {
	key, err := secret("s3.key", c.Key)
	if err != nil {
		return nil, err
	}
	word, err := secret("s3.secret", c.Secret)
	if err != nil {
		return nil, err
	}
	authority, err := authorityOf("s3", c.Authority)
	if err != nil {
		return nil, err
	}
	server, err := s3store.Connect(s3store.Options{
		Endpoint: c.Endpoint, Public: c.Public, Region: c.Region, CA: authority,
		Credentials: conn.Credentials{User: key.Reveal(), Password: word}, NoPresign: !c.Presign,
		SpoolDir: c.SpoolDir, SpoolBytes: int64(c.SpoolBytes), Logger: slog.Default(),
	})
	if err != nil {
		return nil, fmt.Errorf("s3: %w", err)
	}
	return server, nil
}

func (s *Store) openRedis(_ context.Context, cfg config.Config, t Time) error {
	o, err := redisOptions(cfg.Redis, t)
	if err != nil {
		return err
	}
	shared, err := redisstore.Open(o)
	if err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	s.open = append(s.open, shared)
	s.Set.Signals = shared.Signals()
	s.Set.Limits = newLimits(shared.Limits(), memstore.NewLimits(cfg.Memory.Buckets), t.Elapsed, slog.Default())
	return nil
}

func redisOptions(c config.Redis, t Time) (redisstore.Options, error) {
	password, err := secret("redis.password", c.Password)
	if err != nil {
		return redisstore.Options{}, err
	}
	wire, err := wireTLS("redis", c.TLS, c.Authority)
	if err != nil {
		return redisstore.Options{}, err
	}
	return redisstore.Options{
		Addresses: c.Addresses, Credentials: conn.Credentials{User: c.User, Password: password}, TLS: wire,
		Prefix: c.Prefix, Lease: c.Lease, Elapsed: t.Elapsed, Logger: slog.Default(),
	}, nil
}
