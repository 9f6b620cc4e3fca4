package profile

import (
	"context"
	"fmt"
	"strings"

	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/redisstore"
)

// Finding is what a check found about one server.
type Finding struct {
	Server string // the section of the configuration
	At     string // where it is
	Err    error  // nil: it can be relied on
}

// Check tries on every server of a cluster what a node does there, each by itself,
// and says what is wrong with it. It leaves the keyspace and the topics that Cluster
// makes. Of the embedded profile there is nothing to try.
func Check(ctx context.Context, cfg config.Config, t Time) []Finding {
	if cfg.Profile != config.Cluster {
		return nil
	}
	kafka, cassandra, s3 := &Store{}, &Store{}, &Store{}
	cassandra.Set.Log = unused{}
	found := []Finding{
		{"cassandra", strings.Join(cfg.Cassandra.Hosts, ", "), try(ctx, cfg, t, cassandra, cassandra.openCassandra)},
		{"kafka", strings.Join(cfg.Kafka.Brokers, ", "), try(ctx, cfg, t, kafka, kafka.checkKafka)},
		{"s3", cfg.S3.Endpoint, try(ctx, cfg, t, s3, s3.openS3)},
		{"redis", strings.Join(cfg.Redis.Addresses, ", "), nil},
	}
	found[3].Err = checkRedis(ctx, cfg.Redis, t)
	return found
}

// unused is the log of a driver that writes no batches.
type unused struct{ store.Log }

func try(ctx context.Context, cfg config.Config, t Time, s *Store, open func(context.Context, config.Config, Time) error) error {
	err := open(ctx, cfg, t)
	if closed := s.Close(); err == nil {
		err = closed
	}
	return err
}

// checkKafka asks for what mayfly replay needs, too.
func (s *Store) checkKafka(ctx context.Context, cfg config.Config, t Time) error {
	log, err := s.connectKafka(ctx, cfg, t, false)
	if err != nil {
		return err
	}
	if err := log.Check(ctx); err != nil {
		return fmt.Errorf("kafka: %w", err)
	}
	return nil
}

func checkRedis(ctx context.Context, cfg config.Redis, t Time) error {
	o, err := redisOptions(cfg, t)
	if err != nil {
		return err
	}
	return redisstore.Check(ctx, o)
}
