//go:build servers

package kafkastore

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mayflyhq/mayfly"
)

func (s *Store) alter(t *testing.T, topic, name, value string) {
	t.Helper()
	changed, err := s.admin.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Name: name, Value: kadm.StringPtr(value)}}, topic)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range changed {
		if c.Err != nil {
			t.Fatal(c.Err)
		}
	}
	patience := time.After(time.Minute)
	for s.setting(t, topic, name) != value { // the broker applies it a moment later
		select {
		case <-time.After(pollInterval):
		case <-patience:
			t.Fatalf("%s of %s never became %s", name, topic, value)
		}
	}
}

func (s *Store) setting(t *testing.T, topic, name string) string {
	t.Helper()
	described, err := s.admin.DescribeTopicConfigs(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range described {
		for _, one := range c.Configs {
			if one.Key == name {
				return one.MaybeValue()
			}
		}
	}
	return ""
}

func TestNodesThatStartTogetherCreateTheTopicsOnce(t *testing.T) {
	t.Parallel()
	o := brokerOptions(t)
	o.Partitions = 3
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			s, err := Open(t.Context(), o)
			if err != nil {
				t.Error(err)
				return
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	s := open(t, o)
	found, err := s.admin.ListTopics(t.Context(), o.topics()...)
	if err != nil {
		t.Fatal(err)
	}
	for _, topic := range o.topics() {
		if n := len(found[topic].Partitions); n != 3 {
			t.Errorf("topic %s has %d partitions", topic, n)
		}
	}
}

func TestOpenRefusesTopicsThatMayLoseEvents(t *testing.T) {
	t.Parallel()
	o := brokerOptions(t)
	s := open(t, o)
	for _, c := range []struct{ name, bad, good string }{
		{retention, "604800000", "2592000000"},
		{retentionBytes, "1048576", "-1"},
		{cleanup, "compact", "delete"},
		{timestampType, "LogAppendTime", "CreateTime"},
		{unclean, "true", "false"},
	} {
		topic := o.topic(mayfly.Ends)
		s.alter(t, topic, c.name, c.bad)
		_, err := Open(t.Context(), o)
		ours := (*mayfly.Error)(nil)
		if !errors.As(err, &ours) || ours.Kind != mayfly.Invalid || !strings.Contains(ours.Hint, "--add-config "+c.name+"="+c.good) {
			t.Errorf("%s=%s: %v", c.name, c.bad, err)
		}
		if err := s.Trim(t.Context(), wall(), minRetention); !errors.Is(err, mayfly.Invalid) {
			t.Errorf("%s=%s while it runs: %v", c.name, c.bad, err)
		}
		s.alter(t, topic, c.name, c.good)
		if err := s.Trim(t.Context(), wall(), minRetention); err != nil {
			t.Errorf("after fixing %s: %v", c.name, err)
		}
	}
	if err := s.Trim(t.Context(), wall(), minRetention+1e6); !errors.Is(err, mayfly.Invalid) {
		t.Errorf("trim with a retention that is a millisecond longer than the topic's: %v", err)
	}
}

func TestMoreReplicasThanBrokersIsReported(t *testing.T) {
	t.Parallel()
	o := brokerOptions(t)
	o.ReplicationFactor = 99
	_, err := Open(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), "lower replication_factor") {
		t.Errorf("%v", err)
	}
}

func TestAnExistingTopicWithFewerReplicasIsRefused(t *testing.T) {
	t.Parallel()
	o := brokerOptions(t)
	open(t, o)
	o.ReplicationFactor++
	_, err := Open(t.Context(), o)
	ours := (*mayfly.Error)(nil)
	if !errors.As(err, &ours) || ours.Kind != mayfly.Invalid || !strings.Contains(ours.Hint, "kafka-reassign-partitions.sh") {
		t.Errorf("%v", err)
	}
}

func TestAnUnreadableRecordStopsTheReaderUntilASeek(t *testing.T) {
	t.Parallel()
	o := brokerOptions(t)
	o.Partitions = 1
	s := open(t, o)
	events := life(t, 4)
	if err := s.Append(t.Context(), events[:2]...); err != nil {
		t.Fatal(err)
	}
	stray := &kgo.Record{Topic: o.topic(mayfly.Ends), Value: []byte("not an event"), Key: events[0].ID[:]}
	if err := s.appender.ProduceSync(t.Context(), stray).FirstErr(); err != nil {
		t.Fatal(err)
	}
	events[2].At, events[3].At = wall().Add(1e9), wall().Add(1e9)
	if err := s.Append(t.Context(), events[2:]...); err != nil {
		t.Fatal(err)
	}
	r := join(t, s, "stuck")
	for read := 0; read < 2; {
		records, err := next(t, r, 10)
		if err != nil {
			t.Fatal(err)
		}
		read += len(records)
	}
	for range 2 {
		if records, err := next(t, r, 10); !errors.Is(err, mayfly.Corrupt) {
			t.Fatalf("%v, %v", records, err)
		}
	}
	if err := r.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, err := r.Lag(t.Context()); err != nil || n != 3 {
		t.Errorf("lag %d, %v", n, err)
	}
	if err := r.Seek(t.Context(), events[2].At); err != nil {
		t.Fatal(err)
	}
	records, err := next(t, r, 10)
	if err != nil || records[0].Event != events[2] {
		t.Errorf("after the seek: %v, %v", records, err)
	}
}
