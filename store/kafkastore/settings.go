package kafkastore

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mayflyhq/mayfly"
)

// settings are topic configs by their Kafka names.
type settings map[string]string

const (
	retention         = "retention.ms"
	retentionBytes    = "retention.bytes"
	cleanup           = "cleanup.policy"
	timestampType     = "message.timestamp.type"
	timestampAfterMax = "message.timestamp.after.max.ms"
	unclean           = "unclean.leader.election.enable"
	inSync            = "min.insync.replicas"
)

// requiredSettings returns the configs of a topic that this driver creates.
func requiredSettings(keep time.Duration, replicas int) settings {
	return settings{
		retention: millis(keep), retentionBytes: "-1", cleanup: "delete", unclean: "false", inSync: strconv.Itoa(minInSync(replicas)),
		// Retention and seeks use the timestamp that the producer sets.
		timestampType: "CreateTime",
		// A broker that refuses an event for its timestamp would refuse every retry.
		timestampAfterMax: strconv.FormatInt(math.MaxInt64, 10),
	}
}

// minInSync returns the required min.insync.replicas.
func minInSync(replicas int) int {
	if replicas >= 3 {
		return 2
	}
	return 1
}

// checkSettings returns an error if the topic may lose an event before keep is over.
// Such a mistake is dangerous because nothing fails until the event is needed (L8).
// The hint is the command that fixes the topic.
func checkSettings(topic string, replicas int, got settings, keep time.Duration, brokers []string) error {
	fix := settings{}
	var problems []string
	problem := func(name, better, format string, args ...any) {
		fix[name] = better
		problems = append(problems, fmt.Sprintf(format, args...))
	}
	required := requiredSettings(keep, replicas)
	if kept, err := strconv.ParseInt(got[retention], 10, 64); err != nil || kept >= 0 && kept < keep.Milliseconds() {
		problem(retention, required[retention], "retains events for %s ms, less than the %s of %s", cmp.Or(got[retention], "unknown"), required[retention], keep)
	}
	if got[retentionBytes] != "-1" {
		problem(retentionBytes, "-1", "deletes recent events when it exceeds %s bytes", got[retentionBytes])
	}
	if got[cleanup] != "delete" {
		problem(cleanup, "delete", "has the cleanup policy %q, which deletes events of any age", got[cleanup])
	}
	if got[timestampType] != "CreateTime" {
		problem(timestampType, "CreateTime", "sets timestamps by %q, so that a seek misses events", got[timestampType])
	}
	if got[unclean] != "false" {
		problem(unclean, "false", "may elect a leader that lacks acknowledged events")
	}
	if n, err := strconv.Atoi(got[inSync]); err != nil || n < minInSync(replicas) {
		problem(inSync, required[inSync], "acknowledges records that are on %s of its %d replicas", got[inSync], replicas)
	}
	if len(problems) == 0 {
		return nil
	}
	return mayfly.Errorf(mayfly.Invalid, "kafka: topic %s %s", topic, strings.Join(problems, "; ")).WithHint(fixCommand(topic, fix, brokers))
}

// checkReplicas refuses a topic with fewer replicas than configured, because fewer broker
// failures than the operator expects would lose events.
func checkReplicas(topic string, replicas int, o Options) error {
	if replicas >= o.ReplicationFactor {
		return nil
	}
	return mayfly.Errorf(mayfly.Invalid, "kafka: topic %s has a partition with %d replicas, fewer than the configured %d", topic, replicas, o.ReplicationFactor).
		WithHint(fmt.Sprintf("kafka-reassign-partitions.sh --bootstrap-server %s --execute --reassignment-json-file, with a file that names %d brokers as replicas of each partition of %s",
			strings.Join(o.Brokers, ","), o.ReplicationFactor, topic))
}

// fixCommand returns the command that corrects the settings of a topic.
func fixCommand(topic string, fix settings, brokers []string) string {
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(fix)) {
		pairs = append(pairs, name+"="+fix[name])
	}
	return fmt.Sprintf("kafka-configs.sh --bootstrap-server %s --alter --entity-type topics --entity-name %s --add-config %s",
		strings.Join(brokers, ","), topic, strings.Join(pairs, ","))
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
