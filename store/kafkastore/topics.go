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

// lookAgain is how long to wait for what a broker does not know yet.
const lookAgain = 100 * time.Millisecond

// prepareTopics makes the topics that are not there, waits until each partition has
// a leader, and refuses those that forget too soon or may not be written to.
func (s *Store) prepareTopics(ctx context.Context) error {
	if err := s.makeTopics(ctx); err != nil {
		return unavailable("make the topics", err)
	}
	if err := s.judgeTopics(ctx, s.opts.Keep); err != nil {
		return err
	}
	return s.judgeRights(ctx, kmsg.ACLOperationWrite)
}

// prepare does what Open could not: nothing is appended to a topic that nobody has
// looked at. Its errors are Unavailable, so that callers keep the event.
func (s *Store) prepare(ctx context.Context) error {
	if s.prepared.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.Patience)
	defer cancel()
	if err := s.prepareTopics(ctx); err != nil {
		return mayfly.Errorf(mayfly.Unavailable, "%v", err) // whatever kind it is of: it is not the event
	}
	s.prepared.Store(true)
	return nil
}

// makeTopics may be run by several nodes at once: the first one makes them.
func (s *Store) makeTopics(ctx context.Context) error {
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
		for name, value := range wantedSettings(s.opts.Keep, s.opts.Copies) {
			configs[name] = kadm.StringPtr(value)
		}
		made, err := s.admin.CreateTopics(ctx, int32(s.opts.Partitions), int16(s.opts.Copies), configs, missing...)
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

// awaitTopics waits for the leaders: a broker that was asked about a new topic too
// early says that there is none.
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
		case <-time.After(lookAgain):
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		}
	}
}

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

// judgeTopics asks how the topics are kept now.
func (s *Store) judgeTopics(ctx context.Context, keep time.Duration) error {
	found, err := s.admin.ListTopics(ctx, s.opts.topics()...)
	if err != nil {
		return unavailable("look at the topics", err)
	}
	described, err := s.admin.DescribeTopicConfigs(ctx, s.opts.topics()...)
	if err != nil {
		return unavailable("ask how the topics are kept", err)
	}
	var errs []error
	for _, d := range described {
		if d.Err != nil {
			return unavailable("ask how topic "+d.Name+" is kept", d.Err)
		}
		got := settings{}
		for _, c := range d.Configs {
			got[c.Key] = c.MaybeValue()
		}
		copies := fewestCopies(found[d.Name].Partitions)
		errs = append(errs, judge(d.Name, copies, got, keep, s.opts.Brokers), judgeCopies(d.Name, copies, s.opts))
	}
	return errors.Join(errs...)
}

// fewestCopies is how many the partition has that has the fewest.
func fewestCopies(partitions kadm.PartitionDetails) int {
	fewest := math.MaxInt
	for _, p := range partitions {
		fewest = min(fewest, len(p.Replicas))
	}
	if len(partitions) == 0 {
		return 0
	}
	return fewest
}

// Trim implements store.Log. The brokers forget by themselves, whole segments whose
// youngest record is older than the topic's retention; a record's stamp is never
// before its event. What is left to do is to see that the retention still is what
// keep asks for: somebody may have changed it since the start. Errors: Invalid with
// the command that mends it, Unavailable.
func (s *Store) Trim(ctx context.Context, _ mayfly.Instant, keep time.Duration) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.Patience)
	defer cancel()
	return s.judgeTopics(ctx, max(keep, 0))
}
