package kafkastore

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/mayflyhq/mayfly"
)

func TestATopicThatMayLoseEventsIsRefusedWithTheCommandThatFixesIt(t *testing.T) {
	for _, c := range []struct {
		about    string
		replicas int
		change   settings
		fix      string // "" if the topic is good
	}{
		{"as we make it", 3, nil, ""},
		{"kept for ever", 3, settings{retention: "-1"}, ""},
		{"kept for longer", 3, settings{retention: "9999999999"}, ""},
		{"one replica, one in sync", 1, settings{inSync: "1"}, ""},
		{"a millisecond less than 30 days", 3, settings{retention: "2591999999"}, "retention.ms=2592000000"},
		{"Kafka's own 7 days", 3, settings{retention: "604800000"}, "retention.ms=2592000000"},
		{"no retention", 3, settings{retention: ""}, "retention.ms=2592000000"},
		{"a bound in bytes", 3, settings{retentionBytes: "1073741824"}, "retention.bytes=-1"},
		{"compacting", 3, settings{cleanup: "compact"}, "cleanup.policy=delete"},
		{"compacting too", 3, settings{cleanup: "compact,delete"}, "cleanup.policy=delete"},
		{"stamped by the broker", 3, settings{timestampType: "LogAppendTime"}, "message.timestamp.type=CreateTime"},
		{"leaders that lack events", 3, settings{unclean: "true"}, "unclean.leader.election.enable=false"},
		{"three replicas, one in sync", 3, settings{inSync: "1"}, "min.insync.replicas=2"},
		{"two problems", 3, settings{retention: "1", cleanup: "compact"}, "cleanup.policy=delete,retention.ms=2592000000"},
	} {
		got := requiredSettings(minRetention, 3)
		maps.Copy(got, c.change)
		err := checkSettings("ends", c.replicas, got, minRetention, []string{"a:1", "b:2"})
		if c.fix == "" {
			if err != nil {
				t.Errorf("%s: %v", c.about, err)
			}
			continue
		}
		command := "kafka-configs.sh --bootstrap-server a:1,b:2 --alter --entity-type topics --entity-name ends --add-config " + c.fix
		if ours := (*mayfly.Error)(nil); !errors.As(err, &ours) || ours.Kind != mayfly.Invalid || ours.Hint != command {
			t.Errorf("%s: %v\nwant the hint %s", c.about, err, command)
		}
	}
}

func TestTheFaultsOfATopicAreNamed(t *testing.T) {
	got := requiredSettings(minRetention, 1)
	got[retention] = "604800000"
	err := checkSettings("births", 1, got, minRetention, []string{"a:1"})
	if err == nil || !strings.Contains(err.Error(), "topic births retains events for 604800000 ms, less than the 2592000000 of 720h0m0s") {
		t.Error(err)
	}
}

func TestATopicWithFewerReplicasThanConfiguredIsRefused(t *testing.T) {
	o := Options{Brokers: []string{"a:1", "b:2"}, ReplicationFactor: 3}
	for replicas, good := range map[int]bool{0: false, 1: false, 2: false, 3: true, 4: true} {
		err := checkReplicas("ends", replicas, o)
		if good {
			if err != nil {
				t.Errorf("%d replicas: %v", replicas, err)
			}
			continue
		}
		ours := (*mayfly.Error)(nil)
		if !errors.As(err, &ours) || ours.Kind != mayfly.Invalid ||
			!strings.Contains(ours.Hint, "kafka-reassign-partitions.sh --bootstrap-server a:1,b:2 ") || !strings.Contains(ours.Hint, "names 3 brokers") {
			t.Errorf("%d replicas: %v, want Invalid with the command that fixes it", replicas, err)
		}
	}
}

func TestATopicHasAsManyReplicasAsItsWeakestPartition(t *testing.T) {
	partition := func(replicas int) kadm.PartitionDetail {
		return kadm.PartitionDetail{Replicas: make([]int32, replicas)}
	}
	for want, of := range map[int]kadm.PartitionDetails{
		0: nil, 3: {0: partition(3), 1: partition(4)}, 1: {0: partition(3), 1: partition(1), 2: partition(2)},
	} {
		if got := fewestReplicas(of); got != want {
			t.Errorf("%d replicas, want %d", got, want)
		}
	}
}
