package kafkastore

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mayflyhq/mayfly"
)

// pollInterval is the pause between two questions to a broker that is not ready yet.
const pollInterval = 100 * time.Millisecond

// prepareTopics creates missing topics, waits until each partition has a leader, and
// returns an error if a topic may lose events too early or may not be written to.
func (s *Store) prepareTopics(ctx context.Context) error {
	if err := s.createTopics(ctx); err != nil {
		return unavailable("create the topics", err)
	}
	if err := s.checkTopics(ctx, s.opts.Retention); err != nil {
		return err
	}
	return s.checkPermissions(ctx, kmsg.ACLOperationWrite)
}

// prepare checks the topics if Open could not, so that nothing is appended to an
// unchecked topic. Its errors are Unavailable, so that callers keep the event.
func (s *Store) prepare(ctx context.Context) error {
	if s.prepared.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	if err := s.prepareTopics(ctx); err != nil {
		return mayfly.Errorf(mayfly.Unavailable, "%v", err) // not Invalid: the event itself is valid
	}
	s.prepared.Store(true)
	return nil
}

// createTopics creates missing topics. Several nodes may run it at once.
func (s *Store) createTopics(ctx context.Context) error {
	found, err := s.admin.ListTopics(ctx, s.opts.topics()...)
	if err != nil {
		return err
	}
	var missing []string
	for _, topic := range s.opts.topics() {
		if errors.Is(found[topic].Err, kerr.UnknownTopicOrPartition) {
			missing = append(missing, topic)
		}
	}
	if len(missing) > 0 {
		configs := map[string]*string{}
		for name, value := range requiredSettings(s.opts.Retention, s.opts.ReplicationFactor) {
			configs[name] = kadm.StringPtr(value)
		}
		made, err := s.admin.CreateTopics(ctx, int32(s.opts.Partitions), int16(s.opts.ReplicationFactor), configs, missing...)
		if err != nil {
			return err
		}
		for _, m := range made {
			if m.Err != nil && !errors.Is(m.Err, kerr.TopicAlreadyExists) {
				return wrapped("topic "+m.Topic+": "+m.ErrMessage, m.Err)
			}
		}
	}
	return s.awaitTopics(ctx)
}

// awaitTopics waits until every partition has a leader. Shortly after the creation a
// broker may still answer that the topic does not exist.
func (s *Store) awaitTopics(ctx context.Context) error {
	for {
		found, err := s.admin.ListTopics(ctx, s.opts.topics()...)
		if err != nil {
			return err
		}
		if err = leaderless(s.opts.topics(), found); err == nil {
			return nil
		}
		select {
		case <-time.After(pollInterval):
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		}
	}
}

// leaderless returns an error for the first partition without a leader.
func leaderless(topics []string, found kadm.TopicDetails) error {
	for _, topic := range topics {
		t := found[topic]
		if t.Err != nil {
			return t.Err
		}
		if len(t.Partitions) == 0 {
			return mayfly.Errorf(mayfly.Unavailable, "topic %s has no partitions yet", topic)
		}
		for _, p := range t.Partitions {
			if p.Err != nil || p.Leader < 0 {
				return mayfly.Errorf(mayfly.Unavailable, "partition %d of topic %s has no leader", p.Partition, topic)
			}
		}
	}
	return nil
}

// checkTopics checks the current settings of the topics.
func (s *Store) checkTopics(ctx context.Context, keep time.Duration) error {
	found, err := s.admin.ListTopics(ctx, s.opts.topics()...)
	if err != nil {
		return unavailable("list the topics", err)
	}
	described, err := s.admin.DescribeTopicConfigs(ctx, s.opts.topics()...)
	if err != nil {
		return unavailable("describe the settings of the topics", err)
	}
	var errs []error
	for _, d := range described {
		if d.Err != nil {
			return unavailable("describe the settings of topic "+d.Name, d.Err)
		}
		got := settings{}
		for _, c := range d.Configs {
			got[c.Key] = c.MaybeValue()
		}
		replicas := fewestReplicas(found[d.Name].Partitions)
		errs = append(errs, checkSettings(d.Name, replicas, got, keep, s.opts.Brokers), checkReplicas(d.Name, replicas, s.opts))
	}
	return errors.Join(errs...)
}

// fewestReplicas returns the smallest number of replicas of any partition.
func fewestReplicas(partitions kadm.PartitionDetails) int {
	fewest := math.MaxInt
	for _, p := range partitions {
		fewest = min(fewest, len(p.Replicas))
	}
	if len(partitions) == 0 {
		return 0
	}
	return fewest
}

// Trim implements store.Log. The brokers delete whole segments whose newest record is
// older than the topic's retention, and a record's timestamp is never before its
// event. Trim only checks that the retention is still at least keep, because an
// operator may have changed it since the start. Errors: Invalid with
// the command that fixes it, Unavailable.
func (s *Store) Trim(ctx context.Context, _ mayfly.Instant, keep time.Duration) error {
	if err := s.checkOpen(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	return s.checkTopics(ctx, max(keep, 0))
}
